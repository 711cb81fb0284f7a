#include "sim/estimates/step/step_programs.hpp"

#include "sim/estimates/step/merged_blocks.hpp"

namespace orrery::estimates {

StepPrograms::StepPrograms(StepGraph& graph, const Plan& plan,
                           const std::vector<BlockPrice>& prices, bool merges)
    : stages_(plan.stages), prices_(&prices) {
  if (merges) merged_prices_ = prices;
  workers_.reserve(plan.workers());
  const std::uint32_t most = plan.most_micro_batches();
  for (const auto& of_class : plan.classes) {
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      const Program& program = graph.program(stage, of_class.micro_batches, most);
      std::unique_ptr<ProgramIndex>& index = indices_[&program];
      if (!index) index = std::make_unique<ProgramIndex>(merged(program), graph.chunks());
      workers_.push_back({index.get(), {}});
    }
  }
  reset_progress();
}

const Program& StepPrograms::merged(const Program& program) {
  if (merged_prices_.empty()) return program;
  merged_.push_back(std::make_unique<const Program>(merge_blocks(program, merged_prices_)));
  return *merged_.back();
}

void StepPrograms::reset_progress() {
  ops_left_ = 0;
  for (Worker& worker : workers_) {
    worker.missing = worker.index->missing();
    ops_left_ += worker.missing.size();
  }
}

}  // namespace orrery::estimates
