#include "sim/estimates/step/program_index.hpp"

namespace orrery::estimates {

ProgramIndex::ProgramIndex(const Program& program, std::uint32_t chunks)
    : program_(&program), chunks_(chunks) {
  const std::size_t count = program.ops.size();
  missing_.reserve(count);
  ordinal_.resize(count);
  first_.resize(count + 1);
  backward_blocks_.resize(program.micro_batches);
  receives_.resize(2 * std::size_t{program.micro_batches} * chunks, kNone);
  for (std::uint32_t op = 0; op < count; ++op) add(op);
  for (std::size_t op = 1; op <= count; ++op) first_[op] += first_[op - 1];
  dependents_.resize(first_[count]);
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::uint32_t op = 0; op < count; ++op) {
    for (const std::uint32_t before : program.ops[op].after) dependents_[next[before]++] = op;
  }
}

void ProgramIndex::add(std::uint32_t number) {
  const Op& op = program_->ops[number];
  const std::uint32_t sends = op.kind == OpKind::receive ? 1 : 0;
  missing_.push_back(static_cast<std::uint32_t>(op.after.size()) + sends);
  for (const std::uint32_t before : op.after) ++first_[before + 1];
  switch (op.kind) {
    case OpKind::compute:
      compute_order_.push_back(number);
      if (op.phase == Phase::backward) ++backward_blocks_.at(op.micro_batch);
      break;
    case OpKind::receive:
      receives_.at(slot(op.phase, op.micro_batch, op.chunk)) = number;
      break;
    case OpKind::collective: {
      std::vector<std::uint32_t>& list = collectives_[op.communicator];
      ordinal_[number] = static_cast<std::uint32_t>(list.size());
      list.push_back(number);
      break;
    }
    case OpKind::send:
    case OpKind::read: break;
  }
}

const std::vector<std::uint32_t>& ProgramIndex::collectives(Communicator which) const {
  static const std::vector<std::uint32_t> kNothing;
  const auto found = collectives_.find(which);
  return found == collectives_.end() ? kNothing : found->second;
}

}  // namespace orrery::estimates
