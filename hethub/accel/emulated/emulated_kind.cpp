#include "hethub/accel/emulated/emulated_kind.h"

#include <algorithm>
#include <charconv>

#include "hethub/base/error.h"
#include "hethub/base/philox.h"
#include "hethub/cluster/sheets.h"
#include "hethub/cost/analytic.h"

namespace hethub {
namespace {

constexpr double kLeastScale = 1e-3;
constexpr double kMostScale = 1e6;
constexpr double kDeviation = 0.05;
constexpr std::uint64_t kDeviationSteps = std::uint64_t{1} << 32U;

bool can_be_emulated(const DataSheet& sheet) {
  return product_peak(sheet.kind, DType::kF32) > 0 && sheet.link_bytes_per_s > 0;
}

[[noreturn]] void refuse(std::string found, std::string expected) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "emulated",
               .found = std::move(found),
               .expected = std::move(expected),
               .fix = "name it as emulated:KIND:scale=F:seed=N; the last two may be left out"});
}

template <typename Number>
Number number_of(std::string_view word) {
  Number value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) {
    refuse(text("'", word, "'"), "a number");
  }
  return value;
}

void read_option(std::string_view option, EmulationOptions& options) {
  constexpr std::string_view kScale = "scale=";
  constexpr std::string_view kSeed = "seed=";
  if (option.starts_with(kScale)) {
    options.scale = number_of<double>(option.substr(kScale.size()));
  } else if (option.starts_with(kSeed)) {
    options.seed = number_of<std::uint64_t>(option.substr(kSeed.size()));
  } else {
    refuse(text("'", option, "'"), "scale=F or seed=N");
  }
  if (!(options.scale >= kLeastScale && options.scale <= kMostScale)) {
    refuse(text("scale=", options.scale), text(kLeastScale, " to ", kMostScale));
  }
}

}  // namespace

EmulationOptions parse_emulation(std::string_view text) {
  EmulationOptions options;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (begin == 0) {
      options.kind = part;
    } else {
      read_option(part, options);
    }
    begin = end + 1;
  }
  if (options.kind.empty()) refuse("no kind", "one of " + emulated_kinds());
  return options;
}

EmulatedKind::EmulatedKind(const EmulationOptions& options) : options_(options) {
  const Sheets sheets = known_sheets();
  const DataSheet* const sheet = sheets.find(options.kind);
  if (sheet == nullptr) refuse(text("kind '", options.kind, "'"), "one of " + emulated_kinds());
  if (!can_be_emulated(*sheet)) {
    throw Error(ErrorCode::kUnsupported,
                {.what = text("emulated: kind ", options.kind),
                 .found = "a data sheet without the peak in fp32 or the rate of its link",
                 .expected = "both",
                 .fix = "emulate another: " + emulated_kinds()});
  }
  kind_ = sheet->kind;
  for (auto& [dtype, peak] : kind_.peak_flops_per_s) {
    peak /= options.scale;
  }
  kind_.memory_bytes_per_s /= options.scale;
  kind_.processors = static_cast<int>(kind_.processors / options.scale);
  link_bytes_per_s_ =
      sheet->link_bytes_per_s / options.scale * sheets.classes.at(sheet->efficiency_class).link;
}

double EmulatedKind::deviation(std::string_view op_class) const {
  const auto key = philox_key(options_.seed, text(kind_.name, " ", op_class));
  const auto step = static_cast<double>(philox_below(key, 0, kDeviationSteps));
  return 1 + kDeviation * (2 * step / static_cast<double>(kDeviationSteps) - 1);
}

double EmulatedKind::op_seconds(const Op& op) const {
  const double peak = product_peak(kind_, op.dtype);
  const double any = peak > 0 ? peak : product_peak(kind_, DType::kF32);
  return deviation(facts_of(op).kind) * analytic_seconds(kind_, any, op);
}

double EmulatedKind::copy_seconds(std::int64_t bytes) const {
  const double moved = 2.0 * static_cast<double>(bytes);
  const double seconds = moved / (kind_.memory_bytes_per_s * kind_.efficiency.memory);
  return deviation("copy") * std::max(kind_.efficiency.launch_s, seconds);
}

double EmulatedKind::link_seconds(std::int64_t bytes) const {
  const double seconds = static_cast<double>(bytes) / link_bytes_per_s_;
  return kind_.efficiency.launch_s + deviation("link") * seconds;
}

std::string emulated_kinds() {
  std::string all;
  for (const DataSheet& sheet : known_sheets().sheets) {
    if (can_be_emulated(sheet)) all += text(all.empty() ? "" : ", ", sheet.kind.name);
  }
  return all;
}

}  // namespace hethub
