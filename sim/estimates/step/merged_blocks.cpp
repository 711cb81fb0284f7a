#include "sim/estimates/step/merged_blocks.hpp"

#include <cstdint>
#include <utility>

namespace orrery::estimates {
namespace {

using Numbers = std::vector<std::uint32_t>;

/// Returns, by operation, whether an operation that is no computation waits for it.
std::vector<bool> awaited_beside(const Program& program) {
  std::vector<bool> awaited(program.ops.size());
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::compute) continue;
    for (const std::uint32_t before : op.after) awaited[before] = true;
  }
  return awaited;
}

/// Returns the runs of compute operations, in their order. Communications that an earlier
/// computation waited for have ended.
std::vector<Numbers> runs_of(const Program& program) {
  const std::vector<bool> awaited = awaited_beside(program);
  std::vector<bool> ended(program.ops.size());
  std::vector<Numbers> runs;
  bool is_open = false;
  for (std::uint32_t number = 0; number < program.ops.size(); ++number) {
    const Op& op = program.ops[number];
    if (op.kind != OpKind::compute) continue;
    for (const std::uint32_t before : op.after) {
      if (program.ops[before].kind == OpKind::compute || ended[before]) continue;
      ended[before] = true;
      is_open = false;
    }
    if (!std::exchange(is_open, !awaited[number])) runs.emplace_back();
    runs.back().push_back(number);
  }
  return runs;
}

BlockPrice price_of(const Program& program, const Numbers& run,
                    const std::vector<BlockPrice>& prices) {
  BlockPrice sum{};
  for (const std::uint32_t number : run) {
    const BlockPrice& each = prices[program.ops[number].block];
    sum.compute.value += each.compute.value;
    sum.tensor.value += each.tensor.value;
    sum.moved += each.moved;
    sum.products.value += each.products.value;
    sum.memory.value += each.memory.value;
  }
  return sum;
}

}  // namespace

/// An operation stands where the last one of its run stood. It waits for the communications of
/// the first one; computations keep their order without it.
Program merge_blocks(const Program& program, std::vector<BlockPrice>& prices) {
  const auto is_compute = [&](std::uint32_t op) { return program.ops[op].kind == OpKind::compute; };
  const std::vector<Numbers> runs = runs_of(program);
  Program merged{.stage = program.stage, .micro_batches = program.micro_batches, .ops = {}};
  Numbers place_of(program.ops.size()), firsts;
  auto run = runs.begin();
  for (std::uint32_t number = 0; number < program.ops.size(); ++number) {
    const auto place = static_cast<std::uint32_t>(merged.ops.size());
    place_of[number] = place;
    if (is_compute(number) && number != run->back()) continue;
    merged.ops.push_back(program.ops[number]);
    firsts.push_back(is_compute(number) ? run->front() : number);
    if (!is_compute(number)) continue;
    for (const std::uint32_t each : *run) place_of[each] = place;
    if (run->size() > 1) {
      merged.ops.back().block = static_cast<std::uint32_t>(prices.size());
      prices.push_back(price_of(program, *run, prices));
    }
    ++run;
  }
  for (std::uint32_t place = 0; place < merged.ops.size(); ++place) {
    FewOps after;
    for (const std::uint32_t before : program.ops[firsts[place]].after) {
      if (is_compute(firsts[place]) && is_compute(before)) continue;
      after.push_back(place_of[before]);
    }
    merged.ops[place].after = after;
  }
  return merged;
}

}  // namespace orrery::estimates
