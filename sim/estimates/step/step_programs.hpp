// The programs of a step's workers, and how far each has come: a worker is a replica class at a
// stage, numbered class by class. Kept by the execution of a step; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/program_index.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class StepPrograms {
 public:
  /// Both outlive this.
  StepPrograms(StepGraph& graph, const Plan& plan);

  std::uint32_t workers() const { return static_cast<std::uint32_t>(workers_.size()); }
  std::uint32_t class_of(std::uint32_t worker) const { return worker / stages_; }
  std::uint32_t stage_of(std::uint32_t worker) const { return worker % stages_; }
  /// The worker of the same class at another stage.
  std::uint32_t at_stage(std::uint32_t worker, std::uint32_t stage) const {
    return class_of(worker) * stages_ + stage;
  }
  const ProgramIndex& index(std::uint32_t worker) const { return *workers_[worker].index; }
  const ProgramIndex& index(std::uint32_t of_class, std::uint32_t stage) const {
    return index(of_class * stages_ + stage);
  }
  const Op& op(std::uint32_t worker, std::uint32_t op) const { return index(worker).ops()[op]; }

  /// Others must end before it.
  bool waits(std::uint32_t worker, std::uint32_t op) const {
    return workers_[worker].missing[op] > 0;
  }
  /// One that it waits for has ended. True if it was the last.
  bool free(std::uint32_t worker, std::uint32_t op) { return --workers_[worker].missing[op] == 0; }
  /// An operation has ended. True if it was the last of all.
  bool end_one() { return --ops_left_ == 0; }
  bool done() const { return ops_left_ == 0; }

 private:
  struct Worker {
    const ProgramIndex* index = nullptr;
    std::vector<std::uint32_t> missing;  ///< by op: dependencies not yet ended
  };

  const std::uint32_t stages_;
  std::map<const Program*, std::unique_ptr<ProgramIndex>> indices_;  // looked up, never walked
  std::vector<Worker> workers_;
  std::size_t ops_left_ = 0;
};

/// Who is told when an operation of a worker has ended.
class OpListener {
 public:
  virtual ~OpListener() = default;
  virtual void ended(std::uint32_t worker, std::uint32_t op) = 0;
  /// Nothing more is to happen in this step.
  virtual bool over() const = 0;
};

}  // namespace orrery::estimates
