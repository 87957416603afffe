#include "hethub/predict/plan_step.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "hethub/collective/choice.h"
#include "hethub/plan/boundary.h"
#include "hethub/plan/optimizer_ops.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/alike_pipelines.h"
#include "hethub/predict/group_sums.h"
#include "hethub/predict/lane_messages.h"

namespace hethub {
namespace {

class StepWriter {
 public:
  StepWriter(StepBuilder& builder, const Plan& plan, const std::vector<Segment>& segments,
             const StepNumbers& numbers, const std::vector<int>& devices, Labels labels,
             StepPart part, bool stepwise)
      : builder_(builder),
        plan_(plan),
        segments_(segments),
        numbers_(numbers),
        devices_(devices),
        labels_(labels),
        part_(part),
        stepwise_(stepwise) {}

  void write() {
    if (stepwise_) {
      begin_collectives();
    } else {
      choose_representatives();
    }
    for (std::size_t pipeline = 0; pipeline < plan_.pipelines.size(); ++pipeline) {
      if (!stepwise_ && alike_[pipeline] != static_cast<int>(pipeline)) continue;
      schedule_ = schedule_of(plan_, static_cast<int>(pipeline));
      pipeline_ = static_cast<int>(pipeline);
      find_boundaries();
      for (int worker = 0; worker < schedule_.workers(); ++worker) {
        write_worker({static_cast<int>(pipeline), worker});
      }
    }
  }

 private:
  // All ranks of a stage do its actions, each with its own part of the messages.
  void write_worker(RankPosition at) {
    const std::vector<int>& ranks = plan_.pipelines[at.pipeline].stages[at.stage].ranks;
    for (; at.place < std::ssize(ranks); ++at.place) {
      at_ = at;
      rank_ = ranks[at.place];
      if (numbers_.sends_from_lanes) sent_.emplace(schedule_, at.stage);
      for (const Action& action : schedule_.actions[at.stage]) {
        if (wanted(action)) write_action(action);
      }
    }
  }

  void await_sent(const std::vector<int>& messages) {
    for (const int message : messages) {
      builder_.await(device(), message, label_);
    }
  }

  int device() const { return devices_[rank_]; }

  bool wanted(const Action& action) const {
    const bool of_pipeline = action.is_compute() || action.is_send() || action.is_recv();
    switch (part_) {
      case StepPart::kWhole:
        return true;
      case StepPart::kPipelines:
        return of_pipeline;
      case StepPart::kAfterPipelines:
        return !of_pipeline;
      case StepPart::kAfterNorm:
        return action.kind == ActionKind::kUpdate || action.kind == ActionKind::kSyncParameters;
    }
    return true;
  }

  // The messages of one activation or gradient from one stage to another, of which each micro-batch
  // has as many numbers in a row.
  struct Crossing {
    std::vector<BoundaryMessage> parts = {};
    int first = -1;
  };

  // Each position may send each micro-batch's activation and gradient, in each direction.
  void find_boundaries() {
    crossings_.assign(schedule_.worker_of.size() * 2 * schedule_.positions(), {});
    for (std::size_t worker = 0; worker < schedule_.actions.size(); ++worker) {
      for (const Action& action : schedule_.actions[worker]) {
        Crossing* crossing = action.is_send() ? &crossing_of(action) : nullptr;
        if (crossing == nullptr || crossing->first >= 0) continue;
        crossing->parts = boundary_messages(plan_, pipeline_, static_cast<int>(worker),
                                            far_end(schedule_, action).worker);
        crossing->first = builder_.add_messages(static_cast<int>(crossing->parts.size()) *
                                                schedule_.micro_batches);
      }
    }
  }

  Crossing& crossing_of(const Action& send) {
    const int kind = send.kind == ActionKind::kSendActivation ? 0 : 1;
    return crossings_[(send.direction * 2 + kind) * schedule_.positions() + send.position];
  }

  // Calls `use(part, bytes, message)` for each message of an activation or gradient.
  template <typename Use>
  void for_each_part(const Action& send, int boundary, const Use& use) {
    const Crossing& crossing = crossing_of(send);
    const Pipeline& pipeline = plan_.pipelines[pipeline_];
    const auto rows = static_cast<double>(pipeline.micro_batch_size *
                                          std::max<std::int64_t>(plan_.sequence_length, 1));
    for (std::size_t part = 0; part < crossing.parts.size(); ++part) {
      const auto share = static_cast<double>(crossing.parts[part].rows.size()) / rows;
      use(crossing.parts[part], share * bytes_after(boundary),
          crossing.first + send.micro_batch * static_cast<int>(crossing.parts.size()) +
              static_cast<int>(part));
    }
  }

  int device_of(int worker, int place) const {
    return devices_[plan_.pipelines[pipeline_].stages[worker].ranks[place]];
  }

  // What crosses the boundary after `position`, either way.
  double bytes_after(int position) const { return numbers_.stages[pipeline_][position].sent_bytes; }

  double phase_seconds(const Action& action, Phase phase) const {
    const auto& phases = numbers_.stages[pipeline_][action.position].phase_seconds;
    return phases[static_cast<std::size_t>(phase)];
  }

  int label_number(const Action& action) {
    if (labels_ == Labels::kNone) return -1;
    const bool for_all = labels_ == Labels::kKinds;
    int& known = kind_labels_[static_cast<std::size_t>(action.kind)];
    if (for_all && known >= 0) return known;
    const ActionLabel label = label_of(action);
    known = builder_.add_label({.action = action,
                                .lane = std::string(label.lane),
                                .name = for_all ? std::string(label.category) : label.name,
                                .category = std::string(label.category)});
    return known;
  }

  void write_action(const Action& action) {
    label_ = label_number(action);
    if (sent_ && LaneMessages::takes_lane(action)) await_sent(sent_->free_lane(action));
    if (action.is_compute()) {
      write_compute(action);
    } else if (action.is_send()) {
      write_send(action);
    } else if (action.is_recv()) {
      write_recv(action);
    } else {
      write_step_action(action);
    }
  }

  // Some buckets begin meanwhile, each after its check.
  void write_compute(const Action& action) {
    double done = 0;  // seconds of the phases that have been written
    double start = 0;
    for (const Phase phase : phases_of(action.kind)) {
      while (begun_.size() < buckets().size()) {
        const BucketNumbers& bucket = buckets()[begun_.size()];
        const bool is_now = bucket.position == action.position &&
                            bucket.micro_batch == action.micro_batch && bucket.phase == phase;
        if (!is_now) break;
        builder_.work(device(), done + bucket.after_seconds - start + bucket.check_seconds, label_);
        begun_.push_back(builder_.add_message());
        builder_.signal(device(), begun_.back(), label_);
        start = done + bucket.after_seconds;
      }
      done += phase_seconds(action, phase);
    }
    builder_.work(device(), done - start, label_);
  }

  const std::vector<BucketNumbers>& buckets() const {
    static const std::vector<BucketNumbers> kNone = {};
    const bool known = part_ == StepPart::kWhole && !numbers_.buckets.empty();
    return known ? numbers_.buckets[rank_] : kNone;
  }

  void write_send(const Action& action) {
    const WorkerAction far = far_end(schedule_, action);
    const int boundary = std::min(action.position, far.action.position);
    for_each_part(action, boundary, [&](const BoundaryMessage& part, double bytes, int message) {
      if (part.from_place != at_.place) return;
      builder_.send(device(), device_of(far.worker, part.to_place), bytes, message, label_);
      if (sent_) sent_->add(action, message);
    });
  }

  void write_recv(const Action& action) {
    const WorkerAction far = far_end(schedule_, action);
    const int boundary = std::min(action.position, far.action.position);
    for_each_part(
        far.action, boundary, [&](const BoundaryMessage& part, double bytes, int message) {
          if (part.to_place != at_.place) return;
          builder_.recv(device(), device_of(far.worker, part.from_place), bytes, message, label_);
        });
  }

  void write_step_action(const Action& action) {
    if (action.kind == ActionKind::kCheckGradients) {
      if (sent_) await_sent(sent_->free_all());
      // Those that have begun are checked.
      if (begun_.empty()) builder_.work(device(), numbers_.check_seconds[rank_], label_);
    } else if (action.kind == ActionKind::kNormGradients) {
      builder_.work(device(), numbers_.norm_seconds[rank_], label_);
    } else if (action.kind == ActionKind::kUpdate) {
      builder_.work(device(), numbers_.update_seconds[rank_], label_);
    } else if (action.kind == ActionKind::kSyncGradients) {
      write_sums();
    } else if (action.kind == ActionKind::kSyncParameters) {
      for (const BucketSum& bucket : sums_[rank_]) {
        write_sum(bucket, bucket.parameters, label_);
      }
      const double copies = numbers_.copy_seconds.empty() ? 0 : numbers_.copy_seconds[rank_];
      if (copies > 0) builder_.work(device(), copies, label_);
    } else if (!stepwise_) {
      builder_.meet(device(), summary_, label_);
    } else if (norm_.size() == 1) {
      builder_.take_part(norm_[0], rank_, label_);
    }
  }

  // Buckets that have begun are summed beside what the rank does, one after another; it waits for
  // the last of them and then sums the others.
  void write_sums() {
    const auto begun = static_cast<int>(begun_.size());
    if (begun > 0) builder_.use_lane(SimLane::kBeside);
    for (int bucket = 0; bucket < begun; ++bucket) {
      builder_.await(device(), begun_[bucket]);
      const BucketSum& sum = sums_[rank_].at(bucket);
      write_sum(sum, sum.gradients, bucket_label_number(bucket));
    }
    if (begun > 0) {
      const int done = builder_.add_message();
      builder_.signal(device(), done);
      builder_.use_lane(SimLane::kMain);
      builder_.await(device(), done, label_);
    }
    for (int bucket = begun; bucket < std::ssize(sums_[rank_]); ++bucket) {
      write_sum(sums_[rank_][bucket], sums_[rank_][bucket].gradients, label_);
    }
    begun_.clear();
  }

  int bucket_label_number(int bucket) {
    if (labels_ == Labels::kNone) return -1;
    const ActionLabel label = bucket_label(bucket);
    return builder_.add_label({.action = {.kind = ActionKind::kSyncGradients},
                               .lane = std::string(label.lane),
                               .name = label.name,
                               .category = std::string(label.category)});
  }

  void begin_collectives() {
    sums_.resize(devices_.size());
    if (part_ == StepPart::kPipelines) return;
    for (const int summed : summed_segments(segments_)) {
      const Segment& segment = segments_[summed];
      std::vector<int> group;
      for (const int rank : segment.ranks) {
        group.push_back(devices_[rank]);
      }
      for (const auto& choose : {gradient_algorithm, parameter_algorithm}) {
        collectives_.push_back(builder_.begin_collective(group, algorithms_.of(segment, choose),
                                                         segment.owned, DType::kF32));
      }
      const auto last = static_cast<int>(collectives_.size()) - 1;
      for (int position = 0; position < std::ssize(group); ++position) {
        const int gradients = segment.scattered ? -1 : last - 1;
        sums_[segment.ranks[position]].push_back({gradients, last, position});
      }
    }
    const int ranks = static_cast<int>(devices_.size());
    if (ranks < 2) return;
    const std::int64_t given = summary_numbers(ranks);
    norm_.push_back(builder_.begin_collective(devices_, host_all_gather(ranks),
                                              ChunkTable(devices_.size(), given), DType::kF64,
                                              DataPlace::kHost));
  }

  // One pipeline does the tasks of all that are alike, and collectives are meetings of those.
  void choose_representatives() {
    alike_ = first_alike(plan_, builder_.costs().ranks(), devices_);
    std::vector<int> like(devices_.size());
    for (std::size_t pipeline = 0; pipeline < alike_.size(); ++pipeline) {
      const std::vector<Stage>& stages = plan_.pipelines[pipeline].stages;
      const std::vector<Stage>& first = plan_.pipelines[alike_[pipeline]].stages;
      for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        for (std::size_t place = 0; place < stages[stage].ranks.size(); ++place) {
          const int rank = stages[stage].ranks[place];
          like[rank] = first[stage].ranks[place];
          builder_.let_stand_for(devices_[like[rank]], devices_[rank]);
        }
      }
    }
    sums_.resize(devices_.size());
    if (part_ != StepPart::kPipelines) begin_meetings(like);
  }

  void begin_meetings(const std::vector<int>& like) {
    GroupSums sums(builder_);
    std::set<int> all(like.begin(), like.end());
    for (const int summed : summed_segments(segments_)) {
      const Segment& segment = segments_[summed];
      std::set<int> come;
      for (const int rank : segment.ranks) {
        come.insert(like[rank]);
      }
      const auto ranks = static_cast<int>(come.size());
      const int gradients =
          segment.scattered
              ? -1
              : builder_.add_meeting({ranks, sums.gradient_seconds(segment, devices_)});
      const int parameters =
          builder_.add_meeting({ranks, sums.parameter_seconds(segment, devices_)});
      for (const int rank : come) {
        sums_[rank].push_back({gradients, parameters});
      }
    }
    summary_ = builder_.add_meeting({static_cast<int>(all.size()), sums.summary_seconds(devices_)});
  }

  // A rank's part in the sum of a bucket's gradients and in sharing its parameters: numbers of
  // collectives or, of many ranks, of meetings.
  struct BucketSum {
    int gradients = -1;  // -1: each micro-batch has summed them
    int parameters = -1;
    int position = 0;  // in the collectives' groups
  };

  void write_sum(const BucketSum& bucket, int number, int label) {
    if (number < 0) return;
    if (!stepwise_) return builder_.meet(device(), number, label);
    builder_.take_part(collectives_[number], bucket.position, label);
  }

  StepBuilder& builder_;
  const Plan& plan_;
  const std::vector<Segment>& segments_;
  const StepNumbers& numbers_;
  const std::vector<int>& devices_;
  Labels labels_;
  StepPart part_;
  bool stepwise_;
  std::vector<int> kind_labels_ = std::vector<int>(kActionKinds, -1);
  std::vector<SimCollective> collectives_ = {};
  SegmentAlgorithms algorithms_ = {};
  std::vector<std::vector<BucketSum>> sums_ = {};  // by rank
  std::vector<int> begun_ = {};  // of rank_: the message that each of its buckets begins with
  std::vector<SimCollective> norm_ = {};  // of all ranks; none if there is one rank
  std::vector<int> alike_ = {};           // by pipeline, where there are many ranks
  int summary_ = -1;                      // likewise: the meeting of all
  Schedule schedule_ = {};                // of the pipeline that is being written
  int pipeline_ = 0;
  std::vector<Crossing> crossings_ = {};  // by direction, activation or gradient, and position
  RankPosition at_ = {};
  int rank_ = 0;                           // of the plan, at at_
  std::optional<LaneMessages> sent_ = {};  // of that rank
  int label_ = -1;                         // of the action that is being written
};

}  // namespace

void write_step(StepBuilder& builder, const Plan& plan, const std::vector<Segment>& segments,
                const StepNumbers& numbers, const std::vector<int>& devices, Labels labels,
                StepPart part, int most_stepwise) {
  StepWriter(builder, plan, segments, numbers, devices, labels, part,
             plan.world_size() <= most_stepwise)
      .write();
}

}  // namespace hethub
