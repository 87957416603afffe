#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hethub/plan/schedule.h"

namespace hethub {

/// A schedule that is priced ("predict only") and that training does not run: no plan can name it.
struct PredictOnlySchedule {
  std::string_view name = {};
  Schedule (*make)(int stages, int micro_batches) = nullptr;
  bool (*fits)(int stages, int micro_batches) = nullptr;
  std::string_view needs = {};  ///< what must hold for it to fit, in words
  bool flushes = true;          ///< whether all micro-batches of a step end before the next begins
};

/// Chimera, PipeDream and PipeDream-2BW.
const std::vector<PredictOnlySchedule>& predict_only_schedules();

/// What to say of a plan whose schedule is unknown: how to mend it, and why a name that is predict
/// only is none of a plan's.
std::string mend_schedule(std::string_view name);

}  // namespace hethub
