#include "live/run/next_step.hpp"

#include "core/error.hpp"
#include "live/training/plan_codecs.hpp"
#include "policies/record/encoding.hpp"

namespace orrery::live {

StepPlan plan_step(RunParts& run, const StepParts& parts,
                   const std::vector<std::uint32_t>& members) {
  const JobInfo& job = run.placement.job();
  StepPlan plan;
  plan.set_step(parts.step.number());
  plan.set_epoch(parts.crew.epoch());
  if (run.checkpoints.is_enabled()) run.checkpoints.set_plan(job.now.get<CheckpointPlan>());
  run.checkpoints.plan(parts.step.number(), members);
  run.checkpoints.fill(plan);
  encode(job.now.get<CollectiveTable>(), *plan.mutable_collectives());
  std::uint64_t first = 0;
  for (const std::uint32_t seat : members) {
    Share& share = *plan.add_shares();
    share.set_first(first);
    share.set_count(run.placement.share(seat));
    first += share.count();
  }
  ensure(first == job.micro_batches(),
         "expected the members' shares to cover every micro-batch of the step");
  set_codecs(job.now.get<CodecRules>(), plan);
  plan.set_learning_rate_factor(job.now.get<orrery::Batch>().learning_rate_factor);
  return plan;
}

void set_hardware(const RunParts& run, StepParts& parts) {
  const Nanos now = run.clock.now();
  for (const std::uint32_t rank : run.placement.awaited_seats()) {
    parts.crew.set_hardware(rank, parts.faults.hardware(rank, parts.step.number(), now));
  }
}

}  // namespace orrery::live
