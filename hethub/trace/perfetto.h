#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "hethub/trace/timeline.h"

namespace hethub {

/// The timelines as one file that Perfetto (ui.perfetto.dev) and chrome://tracing open: a process
/// a rank, a thread a lane, times in microseconds. A second timeline's ranks are processes of their
/// own, so that a predicted step lies below the measured one. Throws kCannotWrite.
void write_perfetto(std::span<const Timeline> timelines, const std::filesystem::path& file);

/// The same as text.
std::string perfetto_text(std::span<const Timeline> timelines);

/// Reads back what write_perfetto wrote: the same timelines, times to within a nanosecond.
/// Events of other kinds than spans and names are passed over. Throws kMissingInput, or
/// kCorruptData if the file is not such a trace.
std::vector<Timeline> read_perfetto(const std::filesystem::path& file);

/// The same from text; `name` is the file's name in errors.
std::vector<Timeline> parse_perfetto(const std::string& text, const std::string& name);

}  // namespace hethub
