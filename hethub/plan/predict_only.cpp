#include "hethub/plan/predict_only.h"

#include <algorithm>

#include "hethub/base/text.h"
#include "hethub/plan/chimera.h"
#include "hethub/plan/pipedream.h"

namespace hethub {

const std::vector<PredictOnlySchedule>& predict_only_schedules() {
  static const std::vector<PredictOnlySchedule> kAll = {
      {"chimera", chimera, fits_chimera,
       "an even number of stages, and micro-batches in whole runs of them"},
      {"pipedream", pipedream,
       [](int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; },
       "a stage and a micro-batch", false},
      {"pipedream-2bw", pipedream_2bw,
       [](int stages, int micro_batches) {
         return stages >= 1 && micro_batches >= stages && micro_batches % stages == 0;
       },
       "micro-batches in whole runs of the stages", false}};
  return kAll;
}

std::string mend_schedule(std::string_view name) {
  const auto& all = predict_only_schedules();
  const bool known = std::any_of(all.begin(), all.end(),
                                 [&](const PredictOnlySchedule& one) { return one.name == name; });
  if (!known) return "check the spelling";
  return text("training does not run ", name,
              ", it is predict only: see hethub predict --schedules");
}

}  // namespace hethub
