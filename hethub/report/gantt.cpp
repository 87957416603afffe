#include <algorithm>
#include <map>
#include <set>

#include "hethub/base/text.h"
#include "hethub/plan/schedule.h"
#include "hethub/report/charts.h"

namespace hethub {
namespace {

constexpr double kWidth = 1240;
constexpr double kLeft = 190;
constexpr double kRight = 20;
constexpr double kTop = 30;
constexpr double kRow = 30;
constexpr double kGap = 14;

// The style sheet's class of a span: one of ours, whatever the file says.
std::string class_of(const Span& span) {
  for (int index = 0; index < kActionKinds; ++index) {
    const auto kind = static_cast<ActionKind>(index);
    if (span.category == name_of(kind)) return "action-" + std::string(name_of(kind));
  }
  return "action-other";
}

std::string title_of(const Span& span, std::string_view which) {
  return text(span.name, " (", which, "): ", seconds_text(span.seconds()), ", from ",
              seconds_text(span.begin_s), " to ", seconds_text(span.end_s));
}

class GanttWriter {
 public:
  GanttWriter(const Timeline* measured, const Timeline* predicted)
      : measured_(measured), predicted_(predicted) {
    for (const Timeline* timeline : {measured, predicted}) {
      if (timeline == nullptr) continue;
      for (const int rank : ranks_of(*timeline)) {
        names_.emplace(rank, text("rank ", rank));
      }
      for (const auto& [rank, name] : timeline->rank_names) {
        if (names_.contains(rank)) names_[rank] = name;
      }
      whole_ = std::max(whole_, makespan_s(*timeline));
      ++rows_;
    }
  }

  std::string write() {
    const double height = kTop + static_cast<double>(names_.size()) * (rows_ * kRow + kGap) + 10;
    SvgWriter svg(kWidth, height, "what each rank did in one step, measured over predicted");
    write_axis(svg, height);
    double y = kTop + kGap / 2;
    for (const auto& [rank, name] : names_) {
      svg.text({0, y + 19}, shortened(name, 17), "strong");
      if (measured_ != nullptr) write_row(svg, *measured_, rank, y, "measured");
      if (measured_ != nullptr) y += kRow;
      if (predicted_ != nullptr) write_row(svg, *predicted_, rank, y, "predicted");
      if (predicted_ != nullptr) y += kRow;
      y += kGap;
    }
    return std::move(svg).finish();
  }

 private:
  double x_of(double seconds) const {
    return kLeft + (whole_ > 0 ? seconds / whole_ : 0) * (kWidth - kLeft - kRight);
  }

  void write_axis(SvgWriter& svg, double height) const {
    for (const double tick : ticks(0, whole_, 10)) {
      svg.line({x_of(tick), kTop - 6}, {x_of(tick), height - 6}, "grid");
      svg.text({x_of(tick), kTop - 12}, seconds_text(tick), "middle");
    }
  }

  // Compute takes the upper part of a row, communication the lower.
  void write_row(SvgWriter& svg, const Timeline& timeline, int rank, double y,
                 std::string_view which) const {
    svg.text({kLeft - 8, y + 19}, which, "end soft");
    svg.line({kLeft, y + kRow - 2}, {kWidth - kRight, y + kRow - 2}, "grid");
    for (const Span& span : timeline.spans) {
      if (span.rank != rank) continue;
      const bool computes = span.lane == "compute";
      const double width = std::max(x_of(span.end_s) - x_of(span.begin_s), 0.3);
      const Box box{x_of(span.begin_s), computes ? y + 1 : y + 19, width, computes ? 17.0 : 8.0};
      svg.rect(box, text("bar ", which, ' ', class_of(span)), title_of(span, which));
      const auto space = span.name.find(' ');
      if (!computes || space == std::string::npos) continue;
      const std::string micro_batch = span.name.substr(space + 1);
      if (width < 5 + 8 * static_cast<double>(micro_batch.size())) continue;
      svg.text({box.x + width / 2, box.y + 13}, micro_batch, "middle on-bar");
    }
  }

  const Timeline* measured_;
  const Timeline* predicted_;
  std::map<int, std::string> names_ = {};
  double whole_ = 0;
  int rows_ = 0;
};

}  // namespace

std::string gantt_svg(const Timeline* measured, const Timeline* predicted) {
  return GanttWriter(measured, predicted).write();
}

std::string gantt_legend(const Timeline* measured, const Timeline* predicted) {
  std::set<std::string> there;
  for (const Timeline* timeline : {measured, predicted}) {
    if (timeline == nullptr) continue;
    for (const Span& span : timeline->spans) {
      there.insert(class_of(span));
    }
  }
  std::string out = "<p class=\"legend\">";
  const auto add = [&](const std::string& name) {
    if (!there.contains("action-" + name)) return;
    out += text("<span><i class=\"action-", name, "\"></i>", name, "</span> ");
  };
  for (int index = 0; index < kActionKinds; ++index) {
    const auto kind = static_cast<ActionKind>(index);
    add(std::string(name_of(kind)));
  }
  add("other");
  return out + "</p>\n";
}

}  // namespace hethub
