#include <algorithm>
#include <map>

#include "hethub/base/text.h"
#include "hethub/report/charts.h"

namespace hethub {
namespace {

constexpr double kLeft = 150;
constexpr double kBoxWidth = 200;
constexpr double kBoxHeight = 84;
constexpr double kGap = 30;

std::string range_text(const LayerRange& range) {
  if (range.size() == 0) return "none";
  if (range.size() == 1) return text(range.begin);
  return text(range.begin, "–", range.end - 1);
}

// Not longer than a box is wide; the title has the whole text.
std::string fitted(const std::string& text) { return shortened(text, 26); }

std::string_view name_of(Recompute kind) {
  switch (kind) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "";
}

std::string ranks_text(const Stage& stage) {
  std::string out = stage.ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t place = 0; place < stage.ranks.size(); ++place) {
    out += text(place == 0 ? "" : ", ", stage.ranks[place]);
  }
  return out;
}

class DiagramWriter {
 public:
  explicit DiagramWriter(const Plan& plan) : plan_(plan) {
    for (const std::string& kind : plan.kind_of_rank()) {
      colours_.emplace(kind, static_cast<int>(colours_.size()) % 6);
    }
    for (const Pipeline& pipeline : plan.pipelines) {
      most_stages_ = std::max(most_stages_, pipeline.stages.size());
    }
  }

  std::string write() {
    const double width = kLeft + static_cast<double>(most_stages_) * (kBoxWidth + kGap);
    const double height = static_cast<double>(plan_.pipelines.size()) * (kBoxHeight + 16) + 4;
    SvgWriter svg(std::max(width, 1240.0), height, "the plan: a row a pipeline, a box a stage");
    double y = 4;
    for (std::size_t index = 0; index < plan_.pipelines.size(); ++index) {
      write_pipeline(svg, static_cast<int>(index), y);
      y += kBoxHeight + 16;
    }
    return std::move(svg).finish();
  }

 private:
  void write_pipeline(SvgWriter& svg, int index, double y) const {
    const Pipeline& pipeline = plan_.pipelines[static_cast<std::size_t>(index)];
    svg.text({0, y + 24}, text("pipeline ", index), "strong");
    svg.text({0, y + 44}, text(pipeline.micro_batches, " micro-batches"));
    svg.text({0, y + 62}, text("of ", pipeline.micro_batch_size, " sequences"));
    double x = kLeft;
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      write_stage(svg, pipeline.stages[stage], static_cast<int>(stage), {x, y});
      if (stage + 1 < pipeline.stages.size()) {
        const double from = x + kBoxWidth + 3;
        const double middle = y + kBoxHeight / 2;
        svg.line({from, middle}, {from + kGap - 6, middle}, "axis");
        svg.line({from + kGap - 12, middle - 5}, {from + kGap - 6, middle}, "axis");
        svg.line({from + kGap - 12, middle + 5}, {from + kGap - 6, middle}, "axis");
      }
      x += kBoxWidth + kGap;
    }
  }

  void write_stage(SvgWriter& svg, const Stage& stage, int index, Point at) const {
    const std::string head = text("stage ", index, ": ", stage.kind);
    const std::string ranks = ranks_text(stage);
    const std::string layers = "layers " + layers_text(stage.layers);
    const std::string recompute = "recompute: " + recompute_text(stage);
    svg.rect({at.x, at.y, kBoxWidth, kBoxHeight}, text("stage kind-", colours_.at(stage.kind)),
             text(head, "; ", ranks, "; ", layers, "; ", recompute));
    svg.text({at.x + 10, at.y + 20}, fitted(head), "strong");
    svg.text({at.x + 10, at.y + 38}, fitted(ranks));
    svg.text({at.x + 10, at.y + 55}, fitted(layers));
    svg.text({at.x + 10, at.y + 72}, fitted(recompute));
  }

  const Plan& plan_;
  std::map<std::string, int> colours_ = {};
  std::size_t most_stages_ = 0;
};

}  // namespace

std::string layers_text(const std::vector<LayerRange>& layers) {
  std::string out;
  for (const LayerRange& range : layers) {
    if (!out.empty()) out += ", ";
    out += range_text(range);
  }
  return out.empty() ? "none" : out;
}

std::string recompute_text(const Stage& stage) {
  std::string out;
  for (const RecomputeRange& range : stage.recompute) {
    if (range.kind == Recompute::kNone) continue;
    if (!out.empty()) out += ", ";
    out += text(name_of(range.kind), ' ', range_text(range.layers));
  }
  return out.empty() ? "none" : out;
}

std::string plan_diagram_svg(const Plan& plan) { return DiagramWriter(plan).write(); }

}  // namespace hethub
