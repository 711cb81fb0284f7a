// Rules of recorded programs (Job.program): the defaults of a job that follow from its recording,
// the layouts that fit the recording, and the communicators of recorded collectives. Called by the
// loader, the layout check and the step graph. Thread-safe: no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/scenario.pb.h"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {

/// RecordedStep.gpu of a program that was measured on the processor. The peak of such a rank is
/// that of its process, which needs no context of a GPU beside it.
inline constexpr std::string_view kRecordedProcessor = "processor";

/// Returns the keys of a job that its recording determines and that have other values than the
/// defaults. An empty model is a default.
std::vector<std::string> keys_beside_program(const Job& job);

/// Sets the values of a job that follow from its recording (Job.program.step) and are absent:
/// model, tokens, layout, batch, bytes of a gradient.
void complete_program(Job& job);

/// Returns the communicator of a recorded collective in the job's layout; nothing if the layout has
/// none with these ranks. A collective of up to 64 KiB among all ranks of a tensor-parallel job
/// counts as one of the data-parallel group.
std::optional<Communicator> recorded_communicator(const Job& job, const RecordedOp& op);

/// Returns the data-parallel size of the recording under the job's layout.
std::uint32_t recorded_data(const Job& job);
/// Returns the factor on the work and the memory of a rank's share of sharded state: below 1 if the
/// job has more data-parallel ranks than the recording. 1 if the recording is not sharded. Call
/// after complete_program(), which sets layout.data.
double recorded_share(const Job& job);

/// Appends the problems of a job whose layout does not fit its recording.
void check_program(const Job& job, std::vector<Problem>& out);

}  // namespace orrery
