#include "hethub/report/page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "hethub/base/files.h"
#include "hethub/base/text.h"
#include "hethub/base/version.h"
#include "hethub/report/charts.h"
#include "hethub/report/page_style.h"

namespace hethub {
namespace {

std::string tag(std::string_view text) {
  return hethub::text(" <span class=\"tag\">", escaped(text), "</span>");
}

std::string percent_text(double share, bool sign = false) {
  if (std::isnan(share)) return "–";
  return text(sign && share > 0 ? "+" : "", number_text(100 * share, 3), " %");
}

// Bytes, or a dash where 0 means that they are not known.
std::string known_bytes(std::int64_t bytes) {
  return bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "–";
}

// An HTML table; cells are escaped here, so they may hold anything.
class Table {
 public:
  explicit Table(const std::vector<std::string>& head) { add(head, "th"); }

  void row(const std::vector<std::string>& cells) { add(cells, "td"); }
  std::string html() const { return "<div class=\"scroll\"><table>\n" + out_ + "</table></div>\n"; }

 private:
  void add(const std::vector<std::string>& cells, std::string_view element) {
    out_ += "<tr>";
    for (const std::string& cell : cells) {
      out_ += text('<', element, '>', escaped(cell), "</", element, '>');
    }
    out_ += "</tr>\n";
  }

  std::string out_ = {};
};

const Timeline* pointer(const std::optional<Timeline>& timeline) {
  return timeline ? &*timeline : nullptr;
}

class PageWriter {
 public:
  PageWriter(const ReportData& data, const RunSummary& summary) : data_(data), summary_(summary) {}

  std::string write() {
    out_ = text("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ",
                "style-src 'unsafe-inline'\">\n<meta name=\"viewport\" ",
                "content=\"width=device-width\">\n<title>HETHUB run ", escaped(data_.plan_hash),
                "</title>\n<style>", kPageStyle, "</style>\n</head>\n<body>\n");
    write_header();
    write_missing();
    write_plan();
    write_timeline();
    write_memory();
    write_curves();
    write_summary();
    out_ += text("<p class=\"soft\">Written by HETHUB ", escaped(version()), ".</p>\n",
                 "</body>\n</html>\n");
    return std::move(out_);
  }

 private:
  void heading(std::string_view title, std::string_view label) {
    out_ += text("<h2>", title, label.empty() ? "" : tag(label), "</h2>\n");
  }

  void write_header() {
    out_ += text("<h1>Report of a training run</h1>\n<p>Model: <code>", escaped(data_.model_file),
                 "</code>");
    if (data_.model) {
      out_ += text(", ", escaped(data_.model->family), ", ", data_.model->layers, " layers, ",
                   parameter_count(*data_.model), " parameters");
    }
    out_ += text(". Plan: <code>", data_.plan_hash, "</code>.</p>\n<p>Kinds:");
    const std::vector<std::string> kinds = data_.plan.kind_of_rank();
    for (const std::string& kind : std::set<std::string>(kinds.begin(), kinds.end())) {
      const auto ranks = std::count(kinds.begin(), kinds.end(), kind);
      out_ +=
          tag(text(kind, data_.emulated_kinds.contains(kind) ? " (emulated)" : "", " × ", ranks));
    }
    out_ += "</p>\n";
    const bool emulated = !data_.emulated_kinds.empty() || (data_.log && data_.log->emulated);
    if (emulated) {
      out_ +=
          "<p class=\"warn\">Devices of this run are emulated: what is called measured was "
          "measured "
          "on them, not on the devices whose names they have.</p>\n";
    }
    if (data_.log && data_.log->is_void) {
      out_ +=
          "<p class=\"warn\">VOID: more than 1 % of the ops overran the time they were to take; "
          "the "
          "times of this run say nothing.</p>\n";
    }
    out_ +=
        "<p class=\"soft\">“measured” was timed or counted while the run went on; “predicted” was "
        "computed from the plan and never ran.</p>\n";
  }

  void write_missing() {
    for (const std::string& line : data_.missing) {
      out_ += text("<p class=\"warn\">", escaped(line), "</p>\n");
    }
  }

  void write_plan() {
    const Plan& plan = data_.plan;
    heading("Plan", "");
    out_ += text("<p>Schedule ", escaped(plan.schedule), "; sequence length ", plan.sequence_length,
                 "; global batch ", plan.global_batch, " sequences (",
                 plan.global_batch * plan.sequence_length, " tokens); ", escaped(plan.dtype),
                 ".</p>\n<div class=\"scroll\">", plan_diagram_svg(plan), "</div>\n");
    Table table({"pipeline", "stage", "kind", "ranks", "layers", "recompute", "micro-batches",
                 "micro-batch size"});
    for (std::size_t index = 0; index < plan.pipelines.size(); ++index) {
      const Pipeline& pipeline = plan.pipelines[index];
      for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
        const Stage& what = pipeline.stages[stage];
        std::string ranks;
        for (const int rank : what.ranks) {
          ranks += text(ranks.empty() ? "" : ", ", rank);
        }
        table.row({text(index), text(stage), what.kind, ranks, layers_text(what.layers),
                   recompute_text(what), text(pipeline.micro_batches),
                   text(pipeline.micro_batch_size)});
      }
    }
    out_ += table.html();
  }

  void write_timeline() {
    const Timeline* measured = pointer(data_.measured);
    const Timeline* predicted = pointer(data_.predicted);
    if (measured == nullptr && predicted == nullptr) return;
    heading("Timeline of one step", "");
    Table table({"", "step time", "bubble (share of the ranks' time without compute)"});
    if (measured != nullptr) {
      table.row({"measured, the last whole step of the trace",
                 seconds_text(summary_.traced_step_seconds),
                 percent_text(summary_.measured_bubble)});
    }
    if (predicted != nullptr) {
      table.row({"predicted", seconds_text(makespan_s(*predicted)),
                 percent_text(summary_.predicted_bubble)});
    }
    out_ += table.html() + gantt_legend(measured, predicted);
    out_ +=
        "<p class=\"soft\">The upper part of a row is compute, with the micro-batch's number; the "
        "lower is communication, waiting for the peer included. Rest the pointer on a bar for its "
        "times.</p>\n";
    out_ += gantt_svg(measured, predicted);
  }

  void write_memory() {
    if (data_.memory.empty()) return;
    heading("Memory a rank", "predicted; the arena has exactly this size");
    out_ += memory_bars_svg(data_.memory);
    Table table({"rank", "kind", "parameters", "gradients", "optimizer state", "lanes", "shared",
                 "rest", "arena", "beside it", "device has"});
    for (const RankMemory& rank : data_.memory) {
      table.row({text(rank.rank), rank.kind, known_bytes(rank.parameters),
                 known_bytes(rank.gradients), known_bytes(rank.optimizer), known_bytes(rank.lanes),
                 known_bytes(rank.shared), known_bytes(rank.rest()), known_bytes(rank.arena),
                 known_bytes(rank.fixed), known_bytes(rank.device)});
    }
    out_ += table.html();
    if (summary_.peak_resident_bytes <= 0) return;
    out_ += text("<p>Rank 0's process held at most ", known_bytes(summary_.peak_resident_bytes),
                 " resident", tag("measured"),
                 "; that counts its code, libraries and buffers "
                 "too, and leaves out a device with memory of its own.</p>\n");
  }

  void write_curves() {
    if (!data_.log) return;
    Series loss{.name = "training", .classes = "series-0"};
    Series held_out{.name = "held-out", .classes = "series-1", .dots = true};
    Series seconds{.name = "measured", .classes = "series-0"};
    Series predicted{.name = "predicted", .classes = "series-1 dashed"};
    Series rate{.name = "measured", .classes = "series-0"};
    for (const LoggedStep& step : data_.log->steps) {
      const auto x = static_cast<double>(step.step);
      loss.points.push_back({x, step.loss});
      seconds.points.push_back({x, step.step_seconds});
      rate.points.push_back({x, step.tokens_per_second});
      predicted.points.push_back({x, summary_.predicted_step_seconds});
    }
    for (const LoggedEvaluation& one : data_.log->evaluations) {
      held_out.points.push_back({static_cast<double>(one.step), one.loss});
    }
    std::vector<Series> losses = {loss};
    if (!held_out.points.empty()) losses.push_back(held_out);
    std::vector<Series> times = {seconds};
    if (!std::isnan(summary_.predicted_step_seconds)) times.push_back(predicted);
    heading("Steps", "measured, but for the line that says predicted");
    out_ += "<div class=\"charts\">\n";
    out_ += line_chart_svg({"Loss", "step", "nats a token", false, losses});
    out_ += line_chart_svg({"Step time", "step", "seconds", true, times});
    out_ += line_chart_svg({"Rate", "step", "tokens a second", true, {rate}});
    out_ += "</div>\n";
  }

  void write_summary() {
    heading("Summary", "");
    const RunSummary& s = summary_;
    Table table({"", "value", ""});
    if (data_.log) {
      table.row({"steps in the log", text(s.steps), "measured"});
      table.row({"training loss, first and last step",
                 text(number_text(s.first_loss, 5), " → ", number_text(s.last_loss, 5)),
                 "measured"});
      table.row(
          {"held-out loss, first and last evaluation",
           text(number_text(s.first_held_out_loss, 5), " → ", number_text(s.last_held_out_loss, 5)),
           "measured"});
      table.row({"step time, median without the first quarter", seconds_text(s.step_seconds),
                 "measured"});
      table.row({"tokens a second, likewise", number_text(s.tokens_per_second), "measured"});
    }
    const std::string source = s.prediction_source.empty() ? "" : ", by " + s.prediction_source;
    table.row({"step time", seconds_text(s.predicted_step_seconds), "predicted" + source});
    table.row({"error of the prediction (predicted / measured − 1)",
               percent_text(s.prediction_error, true), "predicted against measured"});
    out_ += table.html();
  }

  const ReportData& data_;
  const RunSummary& summary_;
  std::string out_ = {};
};

}  // namespace

std::string report_page(const ReportData& data, const RunSummary& summary) {
  return PageWriter(data, summary).write();
}

}  // namespace hethub
