// Simulated telemetry: columns of samples of ranks, devices and links as a real cluster's
// monitoring would give them, delayed by the scenario's staleness and with its seeded noise. The
// error of a sample depends on seed, instant and place alone, never on the order of reading. Ranks
// of one stage of a replica have equal exact values, which are computed once for each such group;
// values that stay the same in a step are computed once for the step (step_columns).
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "policies/seam/sample_columns.hpp"
#include "sim/estimates/step/played_step.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "sim/training/rank_noise.hpp"
#include "sim/training/step_columns.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/declared_noise.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Telemetry of one fitted job.
class Telemetry {
 public:
  /// Constructs telemetry without steps. `placement`: GPU of each rank of the fit, which does not
  /// change; `numbers`: number in the job of each of these ranks. `cluster`, `graph`, `placement`
  /// and `numbers` must outlive the telemetry.
  Telemetry(const Cluster& cluster, const StepGraph& graph, const std::vector<GpuId>& placement,
            const std::vector<std::uint32_t>& numbers, const Noise& noise, std::uint64_t seed);

  /// Adds a step that begins; steps are added in the order of their begins. Keeps the steps that
  /// samples may still show, and drops older ones.
  void begin_step(estimates::PlayedStep played);
  /// Forgets the steps, because they ran on other GPUs.
  void forget_steps();
  /// Forgets the numbers of the ranks. Call after a change of `numbers`.
  void forget_numbers() { columns_.forget_ranks(); }
  /// Returns the newest step, valid until the next begin_step() or forget_steps(); null without
  /// steps.
  const estimates::PlayedStep* current() const { return steps_.empty() ? nullptr : &steps_.back(); }

  /// Returns the rows of a table, never null: one for each rank, by its number in the job; one for
  /// each GPU, in the order of the ranks; or one for each link between neighbours of the
  /// data-parallel rings of tensor rank 0, of each pipeline stage. No links with one replica, or
  /// before the staleness has passed once. Looks at one step get one object; GPUs and links have
  /// one object in all steps. Call update_links() before a read of links.
  std::shared_ptr<const SampleRows> rows(SampleTable table, Nanos now);
  /// Fills one column, with a value for each row of rows(). All values of ranks and GPUs are
  /// missing if no kept step had begun at `now` minus the staleness; the times of micro-batches and
  /// waits are missing where no kept step has completed them. `out` must be empty.
  void fill_column(SampleField field, Nanos now, SampleColumn& out) {
    fill_range(field, now, {0, graph_.ranks()}, out);
  }
  /// Fills the values of the sample of one rank, numbered as in the fit; they are those of the
  /// columns. `rank` must be below the number of ranks.
  void fill_rank(std::uint32_t rank, Nanos now, RankSample& out);
  /// Computes the rates of the links anew if `state`, the hardware's state, is another than at the
  /// last call. Needs no step.
  void update_links(const estimates::Stepper& stepper, const estimates::HardwareState& state);

  /// Returns, by replica, the noise factor on the compute time of its slowest rank in a step that
  /// begins at `start`; empty without noise of compute times. Equal arguments give equal factors,
  /// until reseed_noise().
  std::vector<double> stretch(Step step, Nanos start, std::uint32_t replicas) const;
  /// Draws noise of steps and samples from `from` on with another seed; replaces an earlier
  /// reseeding.
  void reseed_noise(Nanos from, std::uint64_t seed);

 private:
  /// Links with a sample; none before update_links().
  struct Links {
    std::shared_ptr<const SampleRows> rows;  ///< null: none
    std::vector<double> latency, bandwidth;  ///< values without errors
    estimates::HardwareState state;          ///< state of the hardware with these bandwidths
  };
  /// Random streams of the noise.
  struct Source {
    RankNoise compute;
    std::uint64_t sample = 0;
  };
  Source source_of(std::uint64_t seed) const;
  const Source& source(Nanos at) const { return at < reseeded_ ? source_ : later_; }
  /// Neighbouring ranks of which a column is filled.
  struct Range {
    std::uint32_t first = 0, count = 0;
  };
  void fill_range(SampleField field, Nanos now, Range ranks, SampleColumn& out);
  /// Step at an instant and the step before it; null: none.
  struct Look {
    const estimates::PlayedStep *step = nullptr, *before = nullptr;
  };
  Look look_at(Nanos now) const;
  /// Returns the micro-batches of `step`, that of look_at(now), which the groups have done.
  const std::vector<double>& done_at(const estimates::PlayedStep& step, Nanos now);
  /// Factors of the ranks' compute times in a step, as fractions of their replica's.
  struct Stretches {
    Step step = 0;
    Nanos start = kNever;
    std::vector<double> factors;  ///< empty: all are 1
  };
  const std::vector<double>& stretches_of(const estimates::PlayedStep& step);
  void index_groups();
  /// Number of groups of ranks: one for each stage of each replica.
  std::uint32_t groups() const { return graph_.data() * graph_.pipeline(); }
  /// Fills a column with the values of the groups of the ranks.
  template <class ValueOf>
  void fill_groups(Range ranks, const ValueOf& value_of, std::vector<double>& out);
  /// Fills the times of micro-batches. Returns true if they are equal at all later instants of the
  /// step, for all ranks of the range.
  bool fill_times(const Look& look, Nanos now, Range ranks, std::vector<double>& out);
  /// Limits counts of micro-batches to those that the ranks have in the step.
  void clamp_counts(const estimates::PlayedStep& step, Range ranks, std::vector<double>& counts);
  void fill_gradients(SampleField field, const Look& look, Range ranks, SampleColumn& out);
  void fill_device(SampleField field, const estimates::PlayedStep& step, Range ranks,
                   std::vector<double>& out);
  /// Fills a column of ranks or GPUs with values without errors. Returns true if these are equal at
  /// all later instants of the step.
  bool fill_exact(SampleField field, const Look& look, Nanos now, Range ranks,
                  std::vector<double>& out);
  void add_errors(Nanos now, std::uint64_t first_place, std::vector<double>& values) const;
  /// Variance that remains in the gradient of a replica in a step of `all` micro-batches.
  double gradient_variance_of(const estimates::PlayedStep& newest, std::uint32_t replica,
                              double all) const;

  const Cluster& cluster_;
  const StepGraph& graph_;
  const std::vector<GpuId>& placement_;
  const std::vector<std::uint32_t>& numbers_;
  double compute_cv_, sample_cv_, gradient_variance_;
  DeclaredNoise declared_;
  Nanos staleness_;
  Source source_, later_;
  Nanos reseeded_ = kNever;
  std::deque<estimates::PlayedStep> steps_;
  std::vector<double> memory_;  ///< bytes in use, by stage
  Links links_;
  std::vector<std::uint32_t> group_of_rank_;  ///< replica x stages + stage; empty: not yet needed
  /// Memory that keeps its size from one look to the next.
  struct {
    std::vector<double> of_group;         ///< fill_groups()
    std::vector<std::uint8_t> are_older;  ///< fill_times(): groups that show the step before
    SampleColumn of_rank;                 ///< fill_rank()
  } buffers_;
  struct {
    Nanos at = kNever;
    std::vector<double> values;  ///< micro-batches by group
  } done_;                       ///< result of the newest done_at()
  std::array<Stretches, 2> stretches_;        ///< stretches of the steps read last, newest first
  StepColumns columns_;
};

}  // namespace orrery::sim
