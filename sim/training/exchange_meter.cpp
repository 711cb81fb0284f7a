#include "sim/training/exchange_meter.hpp"

#include "sim/estimates/step/played_step.hpp"
#include "traces/workload/model.hpp"

namespace orrery::sim {

/// The size is that of the gradients in fp32, so that samples of different codecs are comparable.
/// The algorithm is the one that moves the most bytes.
void ExchangeMeter::record_step(JobId job, Step step, const estimates::SimulatedStep& what,
                                Nanos duration, const std::vector<double>& stretch,
                                const StepGraph& graph) {
  newest_ = CollectiveSample{
      .job = job,
      .step = step,
      .kind = CollectiveKind::all_reduce,
      .algorithm = CollectiveAlgorithm::ring,
      .bytes =
          sizeof(float) * parameter_count(graph.job().model()) / graph.tensor() / graph.pipeline(),
      .ranks = graph.data(),
      .exposed = estimates::parts_of(what, to_seconds(duration), stretch).exchange};
  double most = -1;
  for (const estimates::GroupPlan& group : what.plan.groups) {
    if (group.communicator != Communicator::gradient) continue;
    for (const estimates::GroupPlan::Way& way : group.ways) {
      if (way.bytes > most) most = way.bytes, newest_->algorithm = way.algorithm;
    }
  }
}

void ExchangeMeter::read(std::vector<CollectiveSample>& out) const {
  if (newest_ && newest_->exposed > 0) out.push_back(*newest_);
}

}  // namespace orrery::sim
