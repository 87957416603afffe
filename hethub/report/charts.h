#pragma once

#include <string>
#include <vector>

#include "hethub/plan/plan.h"
#include "hethub/report/report_data.h"
#include "hethub/report/svg.h"

namespace hethub {

/// One line of a chart. Points whose y is not finite leave a gap.
struct Series {
  std::string name = {};
  std::string classes = {};  ///< "series-0", ... of the style sheet
  std::vector<Point> points = {};
  bool dots = false;  ///< mark each point
};

struct LineChart {
  std::string title = {};
  std::string x_name = {};
  std::string y_name = {};
  bool from_zero = false;  ///< the y axis begins at 0
  std::vector<Series> series = {};
};

/// The chart with axes and a legend; "" if it has no point.
std::string line_chart_svg(const LineChart& chart);

/// For each rank its measured step over its predicted one, on one time axis, a bar a span; either
/// may be absent.
std::string gantt_svg(const Timeline* measured, const Timeline* predicted);

/// The colours of the actions that occur, as HTML.
std::string gantt_legend(const Timeline* measured, const Timeline* predicted);

/// Pipelines × stages as boxes: what runs where.
std::string plan_diagram_svg(const Plan& plan);

/// "0–2, 6–8": layers from first to last.
std::string layers_text(const std::vector<LayerRange>& layers);

/// "full 0–2": the layers that a stage recomputes; "none".
std::string recompute_text(const Stage& stage);

/// A bar a rank: what fills its arena.
std::string memory_bars_svg(const std::vector<RankMemory>& memory);

}  // namespace hethub
