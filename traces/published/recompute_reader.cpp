#include "traces/published/recompute_reader.hpp"

#include <algorithm>

#include "traces/published/published_options.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {

void RecomputeReader::apply_recompute() {
  const std::uint32_t stages = std::max(1u, draft_.layout().pipeline());
  const RecomputeOption option = recompute_option(
      draft_.row().recompute, (draft_.job().model().layers() + stages - 1) / stages);
  if (!option.what.empty()) {
    draft_.job().set_recompute(option.what);
    draft_.job().set_recompute_share(option.share);
    if (option.offloads && offload_of(draft_.job()) == Offload::none) {
      draft_.job().set_offload(std::string(name_of(Offload::activations)));
    }
    if (option.offloads_to_fit && !fits(option.what)) {
      draft_.job().set_offload(std::string(name_of(Offload::activations)));
    }
    if (!option.assumed.empty()) draft_.run().assumed.push_back(option.assumed);
    draft_.run().recompute_open = !option.assumed.empty() || draft_.habits().recomputes_to_fit;
    return;
  }
  if (draft_.habits().recompute) {
    draft_.job().set_recompute(std::string(name_of(*draft_.habits().recompute)));
    draft_.run().recompute_open = draft_.habits().recomputes_to_fit;
    draft_.add_assumption("recompute {}", draft_.job().recompute());
    return;
  }
  if (draft_.habits().recomputes_to_fit && !fits("none") && !fits("selective")) {
    draft_.job().set_recompute("full");
    draft_.add_assumption("recompute full, which the compiler does to fit");
    return;
  }
  draft_.run().recompute_open = true;
  // Never full: a run would become a third slower than a similar run that fits.
  const bool fits_whole = fits("none");
  draft_.job().set_recompute(fits_whole ? "none" : "selective");
  draft_.add_assumption("recompute {}",
                        fits_whole ? "none" : "selective, since without it does not fit");
}

/// Returns true if the step's memory fits into the usable memory of the GPU.
bool RecomputeReader::fits(const std::string& recompute) const {
  constexpr double kUsable = 0.94;  // context, NCCL, fragmentation
  Job tried = draft_.job();
  tried.set_recompute(recompute);
  if (!job_problems(tried).empty()) return true;  // refused anyway
  const StepGraph graph(tried);
  const double memory = draft_.gpu_memory().value_or(0);
  const std::uint32_t micro_batches = graph.micro_batches() / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    if (graph.memory(stage, micro_batches).total().value > kUsable * memory) return false;
  }
  return true;
}

}  // namespace orrery
