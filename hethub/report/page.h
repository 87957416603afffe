#pragma once

#include <string>

#include "hethub/report/report_data.h"
#include "hethub/report/summary.h"

namespace hethub {

/// One self-contained HTML page: it loads nothing and runs no script. Every text that comes from a
/// file is shown as it is, whatever it contains.
std::string report_page(const ReportData& data, const RunSummary& summary);

}  // namespace hethub
