#include "live/programs/calibration/step_recording.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "live/programs/calibration/step_timeline.hpp"

namespace orrery::live {
namespace {

using Kind = StepMark::Kind;

/// Largest collective that carries norms, flags or counts, and no gradients.
constexpr double kSmallCollective = 64 * 1024;

[[noreturn]] void fail(const std::string& expected) {
  throw Error(ErrorKind::environment, "cannot record a step of this program: expected " + expected);
}

/// Returns the kind of a recorded collective that moves its bytes as this operation does; empty
/// for an operation that a recorded step cannot contain.
std::string collective_of(const std::string& name) {
  for (const char* same : {"all_reduce", "barrier", "reduce"}) {
    if (name == same) return "all_reduce";
  }
  for (const char* same : {"all_gather", "gather", "broadcast", "scatter"}) {
    if (name == same) return "all_gather";
  }
  return name == "reduce_scatter" ? name : "";
}

/// Returns the size of the whole buffer of an operation.
double whole_bytes(const ProfiledOperation& operation) {
  const bool is_part = operation.name == "all_gather" || operation.name == "gather" ||
                       operation.name == "reduce_scatter";
  const auto ranks = static_cast<double>(operation.members.size());
  return std::max(1.0, operation.bytes * (is_part ? ranks : 1));
}

CollectiveTime time_of(const ProfiledOperation& operation, double seconds) {
  const auto ranks = static_cast<double>(operation.members.size());
  const double rounds = (collective_of(operation.name) == "all_reduce" ? 2 : 1) * (ranks - 1);
  return {rounds, rounds / ranks * whole_bytes(operation), seconds};
}

/// Step of all ranks.
using AllRanks = std::vector<StepTimeline>;

double duration_of(const AllRanks& step) {
  double longest = 0;
  for (const StepTimeline& rank : step) longest = std::max(longest, rank.duration_s());
  return longest;
}

/// Returns the steps of the most frequent shape, of the middle half by duration.
std::vector<AllRanks> typical_steps(const std::vector<RankProfile>& profiles,
                                    const StepChoice& choice, std::size_t& seen) {
  std::vector<std::vector<StepTimeline>> by_rank;
  seen = ~std::size_t{0};
  for (const RankProfile& profile : profiles) {
    by_rank.push_back(timelines_of(profile));
    seen = std::min(seen, by_rank.back().size());
  }
  if (seen < choice.least) {
    fail(fmt::format("at least {} complete steps, found {}", choice.least, seen));
  }
  std::map<std::string, std::vector<AllRanks>> by_shape;
  for (std::size_t i = std::min(choice.warm_up, seen - 1); i < seen; ++i) {
    AllRanks step;
    std::string shape = shape_of(profiles[0], by_rank[0][i]);
    for (std::size_t rank = 0; rank < profiles.size(); ++rank) {
      if (shape_of(profiles[rank], by_rank[rank][i]) != shape) shape.clear();
      step.push_back(by_rank[rank][i]);
    }
    if (!shape.empty()) by_shape[shape].push_back(std::move(step));
  }
  if (by_shape.empty()) fail("the same operations in all ranks, found different ones");
  auto& steps =
      std::max_element(by_shape.begin(), by_shape.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      })->second;
  std::sort(steps.begin(), steps.end(),
            [](const AllRanks& a, const AllRanks& b) { return duration_of(a) < duration_of(b); });
  const auto quarter = static_cast<std::ptrdiff_t>(steps.size() / 4);
  return {steps.begin() + quarter, steps.end() - quarter};
}

/// Adds the computation of one step to `sums`: between two waits that of the slowest rank.
void add_slowest(const std::vector<RankProfile>& profiles, const AllRanks& step,
                 std::vector<double>& sums) {
  std::vector<std::vector<double>> seconds;
  for (std::size_t rank = 0; rank < profiles.size(); ++rank) {
    seconds.push_back(compute_before(profiles[rank], step[rank]));
  }
  const std::vector<StepMark>& marks = step[0].marks;
  for (std::size_t from = 0, until = 0; from < marks.size(); from = until) {
    while (until < marks.size() && marks[until].kind != Kind::wait) ++until;
    until = std::min(until + 1, marks.size());
    const auto sum = [&](const std::vector<double>& each) {
      return std::accumulate(each.begin() + static_cast<std::ptrdiff_t>(from),
                             each.begin() + static_cast<std::ptrdiff_t>(until), 0.0);
    };
    const auto& slowest =
        *std::max_element(seconds.begin(), seconds.end(),
                          [&](const auto& a, const auto& b) { return sum(a) < sum(b); });
    for (std::size_t i = from; i < until; ++i) sums[i] += slowest[i];
  }
}

/// Adds the times of the collectives of one step, from the start of the last rank to the end of the
/// last one, to `times`, which has an entry for each mark of the step.
void add_times(const std::vector<RankProfile>& profiles, const AllRanks& step,
               std::vector<CollectiveTime>& times) {
  for (std::size_t i = 0; i < step[0].marks.size(); ++i) {
    if (step[0].marks[i].kind != Kind::issue) continue;
    const ProfiledOperation& first = profiles[0].operations[step[0].marks[i].operation];
    if (first.members.size() < 2) continue;
    double begun_s = 0, ended_s = 0;
    for (std::size_t rank = 0; rank < profiles.size(); ++rank) {
      const ProfiledOperation& own = profiles[rank].operations[step[rank].marks[i].operation];
      if (own.members != first.members) continue;
      begun_s = std::max(begun_s, own.begun_s);
      ended_s = std::max(ended_s, own.ended_s);
    }
    times[i] = time_of(first, times[i].seconds + ended_s - begun_s);
  }
}

/// Returns the mean times of a rank over the used steps.
RankTimes times_of_rank(const RankProfile& profile, const std::vector<AllRanks>& steps,
                        std::size_t rank) {
  RankTimes times;
  const auto count = static_cast<double>(steps.size());
  for (const AllRanks& step : steps) {
    const StepTimeline& own = step[rank];
    const std::vector<double> seconds = compute_before(profile, own);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const bool is_input = own.marks[i].kind == Kind::input_end;
      (is_input ? times.input_s : times.compute_s) += seconds[i] / count;
    }
    times.exchange_s += own.duration_s() / count;
  }
  times.exchange_s = std::max(0.0, times.exchange_s - times.compute_s - times.input_s);
  return times;
}

/// Writer of the operations of a recorded step.
class StepWriter {
 public:
  /// `passes`: backward passes of the step.
  StepWriter(const RankProfile& profile, std::uint32_t passes, RecordedStep& step)
      : profile_(profile), passes_(passes), step_(step) {}

  /// Adds the computation before a mark, and the mark itself.
  void add_mark(const StepMark& mark, double seconds);
  double compute_s() const { return compute_s_; }
  double input_s() const { return input_s_; }

 private:
  void flush_compute();
  void add_collective(std::size_t number);
  const char* phase() const {
    return is_update_ ? "update" : is_backward_ ? "backward" : "forward";
  }

  const RankProfile& profile_;
  const std::uint32_t passes_;
  RecordedStep& step_;
  std::map<std::size_t, std::uint32_t> op_of_;  ///< recorded operation by profiled operation
  std::vector<std::uint32_t> waits_;
  std::optional<std::uint32_t> last_compute_;
  double pending_s_ = 0, compute_s_ = 0, input_s_ = 0;
  std::uint32_t ended_passes_ = 0;
  bool is_backward_ = false, is_update_ = false;
};

void StepWriter::flush_compute() {
  if (pending_s_ == 0 && waits_.empty() && last_compute_) return;
  RecordedKernel& kernel = *step_.add_kernels();
  kernel.set_kind("time");
  kernel.set_time(pending_s_);
  RecordedOp& op = *step_.add_ops();
  op.set_phase(phase());
  op.set_micro_batch(is_update_ ? 0 : ended_passes_);
  op.add_kernels(static_cast<std::uint32_t>(step_.kernels_size() - 1));
  op.add_counts(1);
  for (const std::uint32_t wait : waits_) op.add_after(wait);
  waits_.clear();
  pending_s_ = 0;
  last_compute_ = static_cast<std::uint32_t>(step_.ops_size() - 1);
}

void StepWriter::add_collective(std::size_t number) {
  const ProfiledOperation& operation = profile_.operations[number];
  if (operation.members.size() < 2) return;
  const std::string kind = collective_of(operation.name);
  if (kind.empty()) {
    fail(fmt::format("all-reduces, all-gathers, broadcasts and reduce-scatters, found {}",
                     operation.name));
  }
  const auto& members = operation.members;
  const std::uint32_t stride = members[1] - members[0];
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == i * stride) continue;
    fail(fmt::format("groups of ranks 0, n, 2n, ... on rank 0, found the ranks {}",
                     fmt::join(members, ", ")));
  }
  flush_compute();
  RecordedOp& op = *step_.add_ops();
  op.set_phase(phase());
  op.set_micro_batch(is_update_ ? 0 : ended_passes_);
  op.set_collective(kind);
  op.set_bytes(whole_bytes(operation));
  op.set_size(static_cast<std::uint32_t>(members.size()));
  op.set_stride(stride);
  op.add_after(*last_compute_);
  op_of_[number] = static_cast<std::uint32_t>(step_.ops_size() - 1);
  if (kind == "reduce_scatter" && is_backward_ && op.bytes() > kSmallCollective) {
    step_.set_sharded(true);
  }
}

void StepWriter::add_mark(const StepMark& mark, double seconds) {
  pending_s_ += seconds;
  (mark.kind == Kind::input_end ? input_s_ : compute_s_) += seconds;
  switch (mark.kind) {
    case Kind::issue: return add_collective(mark.operation);
    case Kind::wait:
      // An operation of an earlier step is done, and is no part of this one.
      if (op_of_.count(mark.operation) == 0) return;
      flush_compute();
      waits_.push_back(op_of_.at(mark.operation));
      return;
    case Kind::backward_begin:
      flush_compute();
      is_backward_ = true;
      return;
    case Kind::backward_end:
      flush_compute();
      is_backward_ = false;
      is_update_ = ++ended_passes_ == passes_;
      return;
    case Kind::step_end: return flush_compute();
    case Kind::input_begin:
    case Kind::input_end: return;
  }
}

}  // namespace

MeasuredStep measure_step(const std::vector<RankProfile>& profiles, const StepChoice& choice) {
  MeasuredStep measured;
  const std::vector<AllRanks> steps = typical_steps(profiles, choice, measured.seen_steps);
  const std::vector<StepMark>& marks = steps[0][0].marks;
  std::vector<double> compute(marks.size());
  std::vector<CollectiveTime> times(marks.size());
  for (const AllRanks& step : steps) {
    add_slowest(profiles, step, compute);
    add_times(profiles, step, times);
    measured.duration_s += duration_of(step);
  }
  const auto count = static_cast<double>(steps.size());
  measured.used_steps = steps.size();
  measured.duration_s /= count;
  for (CollectiveTime& each : times) each.seconds /= count;
  for (std::size_t rank = 0; rank < profiles.size(); ++rank) {
    measured.ranks.push_back(times_of_rank(profiles[rank], steps, rank));
  }
  measured.links = fit_links(times);
  measured.step = profiles[0].state;
  const bool is_even = std::all_of(profiles.begin(), profiles.end(), [&](const RankProfile& each) {
    return each.examples == profiles[0].examples;
  });
  measured.examples = is_even ? profiles[0].examples : 0;
  const auto passes = static_cast<std::uint32_t>(
      std::count_if(marks.begin(), marks.end(),
                    [](const StepMark& mark) { return mark.kind == Kind::backward_end; }));
  if (passes == 0) fail("backward passes by torch.autograd, found none");
  measured.step.set_ranks(profiles[0].ranks);
  measured.step.set_micro_batches(passes);
  StepWriter writer(profiles[0], passes, measured.step);
  for (std::size_t i = 0; i < marks.size(); ++i) writer.add_mark(marks[i], compute[i] / count);
  measured.compute_s = writer.compute_s();
  measured.input_s = writer.input_s();
  measured.exchange_s = std::max(0.0, measured.duration_s - measured.compute_s - measured.input_s);
  return measured;
}

}  // namespace orrery::live
