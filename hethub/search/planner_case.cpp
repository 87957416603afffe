#include "hethub/search/planner_case.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"

namespace hethub {

std::unique_ptr<PlannerCase> read_planner_case(const std::filesystem::path& file,
                                               const std::map<std::string, int>& counts) {
  const Json document = read_document(file);
  const std::string where = file.string();
  if (document.is_object() && document.contains("schema")) {
    constexpr const char* kSchema = "hethub.planner_case/1";
    const auto schema = get<std::string>(document, where, "schema");
    if (schema != kSchema) {
      throw Error(ErrorCode::kInvalidConfig, {.what = where + ": schema",
                                              .found = schema,
                                              .expected = kSchema,
                                              .fix = "convert the case"});
    }
    return sailor_case(document, where, counts);
  }
  return layered_case(document, where, counts);
}

std::map<std::string, int> parse_cluster_counts(const std::string& all) {
  std::map<std::string, int> counts;
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t comma = std::min(all.find(',', at), all.size());
    const std::string_view part = std::string_view(all).substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = part.rfind('=');
    int count = 0;
    const char* end = part.data() + part.size();
    const char* begin = equals == std::string_view::npos ? end : part.data() + equals + 1;
    const auto read = std::from_chars(begin, end, count);
    if (equals == 0 || begin == end || read.ec != std::errc() || read.ptr != end || count < 0 ||
        !counts.emplace(std::string(part.substr(0, equals)), count).second) {
      throw Error(ErrorCode::kUsage, {.what = "--cluster-counts",
                                      .found = std::string(part),
                                      .expected = "KIND=COUNT, each kind once",
                                      .fix = "write, for example, A100-40=32,V100-16=96"});
    }
  }
  return counts;
}

Json to_json(const std::vector<CasePipeline>& pipelines) {
  Json all = Json::array();
  for (const CasePipeline& pipeline : pipelines) {
    Json stages = Json::array();
    for (const CaseStage& stage : pipeline.stages) {
      stages.push_back(
          {{"kind", stage.kind}, {"tp", stage.tp}, {"layers", {stage.begin, stage.end}}});
    }
    all.push_back({{"micro_batch_size", pipeline.micro_batch_size},
                   {"micro_batches", pipeline.micro_batches},
                   {"stages", stages}});
  }
  return {{"pipelines", all}};
}

}  // namespace hethub
