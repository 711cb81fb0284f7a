// Questions about the rows of a plan: the training of a row, played again with changed values.
// Called by the Python package for comparisons, sensitivities, spares and sliders. One thread.
// Seconds, bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/planning/operator_list.hpp"
#include "sim/planning/plan.hpp"

namespace orrery::sim {

/// Changed values of a row. Empty values are those of the row.
struct RunChanges {
  std::vector<std::string> overrides = {};        ///< "path=value" of the scenario
  std::optional<std::uint32_t> spare_nodes = {};  ///< reserved nodes without ranks
  std::optional<std::uint64_t> every = {};        ///< steps between two checkpoints
  double step_factor = 1;                         ///< factor on the predicted step time
};

/// Course of one played training: its end is that of the seed with the error of the step price.
struct StudiedCourse {
  double step_s = 0;  ///< step time with the error of the step price
  std::vector<CoursePoint> points;
};

/// GPU of a row.
struct GpuFacts {
  std::string name;
  double memory_bandwidth = 0;  ///< bytes per second
  double memory_bytes = 0;
};

/// Plan with the means to ask about its rows. Each answer plays the seeds of the plan, so that two
/// answers differ by their values and not by their failures. For example, play_row(0, {}) returns
/// the first row as the plan has it. Not thread-safe.
class RunStudy {
 public:
  /// Stores the question and its plan.
  RunStudy(PlanQuestion question, Plan plan);
  ~RunStudy();

  /// Returns a study of the same plan whose answers play only the first `seeds` seeds: a slider
  /// needs its answer within 100 ms. Throws a usage Error for fewer than 10 and for more
  /// than the plan's.
  std::unique_ptr<RunStudy> with_first_seeds(std::uint32_t seeds) const;

  /// Returns row `row` (from 0) with the changes, priced and played again. Throws a usage Error for
  /// an unknown row, and bad_input for values that make the run impossible.
  PlannedRun play_row(std::size_t row, const RunChanges& changes);
  /// Returns the course of each seed with its error of the step price. Throws as play_row().
  std::vector<StudiedCourse> courses(std::size_t row, const RunChanges& changes);
  /// Returns the memory of a GPU of each pipeline stage. Throws a usage Error for an unknown row.
  std::vector<MemoryUse> memory(std::size_t row) const;
  /// Returns the operators of a step on a GPU of the stage that computes longest. Throws a usage
  /// Error for an unknown row.
  std::vector<OperatorUse> operators(std::size_t row) const;
  /// Returns the GPU of a row. Throws a usage Error for an unknown row.
  GpuFacts gpu(std::size_t row) const;

 private:
  struct Sky;
  struct Ground;
  /// Run of a row with changes, and the failures that the run meets.
  struct Changed {
    PlannedRun row;
    Ground* ground = nullptr;
  };

  const PlannedRun& row_at(std::size_t row) const;
  Changed changed_row(std::size_t row, const RunChanges& changes);
  /// Returns the basis and the failures of a cluster with these overrides, kept for later calls.
  Ground& ground_of(const std::string& cluster, std::uint32_t gpus,
                    const std::vector<std::string>& overrides);
  /// Returns the failures of a basis, those of another ground where both have the same.
  std::shared_ptr<Sky> sky_of(const PlanBasis& basis, const std::vector<std::string>& overrides);
  /// Returns the long run of a row on a basis that differs by the overrides.
  LongRun run_of(std::size_t row, const PlannedRun& changed, const PlanBasis& basis,
                 const std::vector<std::string>& overrides, std::optional<std::uint64_t> every);

  const PlanQuestion question_;
  const Plan plan_;
  std::vector<std::unique_ptr<Ground>> grounds_;  ///< the most recently used last
  /// Prices of a row's steps on spare nodes, by row and reserved GPUs.
  std::map<std::pair<std::size_t, std::uint32_t>, Slowdown> slowdowns_;
};

}  // namespace orrery::sim
