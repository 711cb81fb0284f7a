#include "sim/estimates/step/step_programs.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "sim/estimates/step/merged_blocks.hpp"

namespace orrery::estimates {

StepPrograms::StepPrograms(StepGraph& graph, const Plan& plan,
                           const std::vector<BlockPrice>& prices, bool merges)
    : stages_(plan.stages), prices_(&prices) {
  if (merges) merged_prices_ = prices;
  index_of_.reserve(plan.workers());
  const std::uint32_t most = plan.most_micro_batches();
  // Only for lookup: the order of pointers is not deterministic.
  std::map<const Program*, std::uint32_t> known;
  for (const auto& of_class : plan.classes) {
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      const Program& program = graph.program(stage, of_class.micro_batches, most);
      const auto next = static_cast<std::uint32_t>(programs_.size());
      const auto [found, is_new] = known.emplace(&program, next);
      if (is_new) add_program(merged(program), graph.chunks());
      index_of_.push_back(found->second);
    }
  }
  reset_progress();
}

void StepPrograms::add_program(const Program& program, std::uint32_t chunks) {
  programs_.push_back(std::make_unique<const ProgramIndex>(program, chunks));
  most_blocks_ = std::max(most_blocks_, programs_.back()->compute_order().size());
  bytes_each_ = std::max(bytes_each_, (program.ops.size() + 1) / 2);
}

const Program& StepPrograms::merged(const Program& program) {
  if (merged_prices_.empty()) return program;
  merged_.push_back(std::make_unique<const Program>(merge_blocks(program, merged_prices_)));
  return *merged_.back();
}

std::pair<std::uint32_t, std::uint32_t> StepPrograms::receive_of(std::uint32_t worker,
                                                                 std::uint32_t op) const {
  const Op& what = this->op(worker, op);
  const std::uint32_t receiver = at_stage(worker, static_cast<std::uint32_t>(what.peer_stage));
  const std::uint32_t wanted = index(receiver).receive_op(what.phase, what.micro_batch, what.chunk);
  ensure(wanted != ProgramIndex::kNone, "every send has a matching receive");
  return {receiver, wanted};
}

void StepPrograms::reset_progress() {
  ops_left_ = 0;
  missing_.assign(workers() * bytes_each_, 0);
  for (std::uint32_t worker = 0; worker < workers(); ++worker) {
    const std::vector<std::uint32_t>& missing = index(worker).missing();
    for (std::uint32_t op = 0; op < missing.size(); ++op) {
      missing_[byte_of(worker, op)] |= static_cast<std::uint8_t>(missing[op] << shift_of(op));
    }
    ops_left_ += missing.size();
  }
}

}  // namespace orrery::estimates
