#include "hethub/train/executor.h"

#include <gtest/gtest.h>

namespace hethub {
namespace {

// Writes down what it is asked to do.
struct Notebook : StageWorker {
  std::vector<Action> notes = {};
  std::vector<WorkerAction> far_ends = {};

  void compute(const Action& what) override { notes.push_back(what); }
  void send(const Action& what, const WorkerAction& to) override {
    notes.push_back(what);
    far_ends.push_back(to);
  }
  void recv(const Action& what, const WorkerAction& from) override {
    notes.push_back(what);
    far_ends.push_back(from);
  }
  void finish_step(const Action& what) override { notes.push_back(what); }
};

TEST(Execute, does_what_the_schedule_says_in_its_order) {
  for (const ScheduleEntry& entry : all_schedules()) {
    for (int stages = entry.virtual_stages ? 2 : 1; stages <= 5; ++stages) {
      const Schedule schedule = entry.make({stages, 2 * stages, 1});
      for (int worker = 0; worker < stages; ++worker) {
        Notebook notebook;
        int observed = 0;
        execute(schedule, worker, notebook, [&](int slot, double begin, double end) {
          EXPECT_EQ(slot, observed++);
          EXPECT_LE(begin, end);
        });
        EXPECT_EQ(notebook.notes, schedule.actions[worker]);
        EXPECT_EQ(observed, std::ssize(notebook.notes));
        for (const WorkerAction& far : notebook.far_ends) {
          EXPECT_EQ(std::abs(far.worker - worker), 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hethub
