#include "sim/training/sim_timeline.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "traces/report/timeline.hpp"

namespace orrery::sim {

SimTimeline::SimTimeline(const std::string& path) : file_(std::make_unique<Timeline>(path)) {}
SimTimeline::~SimTimeline() = default;

void SimTimeline::close() { file_->close(); }

void SimTimeline::add(const estimates::SimulatedStep& simulated, Step step, Nanos start) {
  const estimates::Plan& plan = simulated.plan;
  for (std::uint32_t worker = 0; worker < plan.workers(); ++worker) {
    const estimates::ReplicaClass& of_class = plan.classes[worker / plan.stages];
    const std::string process = fmt::format("replica {} x{}, stage {}", of_class.members.front(),
                                            of_class.members.size(), worker % plan.stages);
    const auto compute = file_->track_named(process, "compute");
    const auto communication = file_->track_named(process, "communication");
    std::vector<estimates::Slice> slices = simulated.run.workers[worker].slices;
    std::stable_sort(
        slices.begin(), slices.end(),
        [](const estimates::Slice& a, const estimates::Slice& b) { return a.begin < b.begin; });
    for (const estimates::Slice& slice : slices) {
      const auto track = slice.track == estimates::Slice::Track::compute ? compute : communication;
      file_->slice(track, slice.name, start + to_nanos(slice.begin), start + to_nanos(slice.end));
    }
  }
  instant(start, fmt::format("step {}", step));
}

void SimTimeline::instant(Nanos at, const std::string& what) {
  file_->instant(file_->track_named("run", "events"), what, at);
}

}  // namespace orrery::sim
