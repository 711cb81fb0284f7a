// Reader of the recording of a step that `orrery rehearse --trace PREFIX` or `orrery calibrate`
// writes: a Chakra trace whose metadata contain the step in compact form, as the JSON of a
// RecordedStep; and the writer of the latter. Called by the loader of scenarios and by calibrate.
// Thread-safe: no state.
#pragma once

#include <string>

#include "traces/scenario.pb.h"

namespace orrery {

/// Name of the attribute of a trace's metadata that contains the step.
inline constexpr const char* kRecordedStepAttribute = "orrery_step";

/// Returns the step of the recording PREFIX.0.et. Throws bad_input, with the file and perhaps the
/// byte, for a file that is missing, that is no Chakra trace, that another program wrote, or whose
/// step is inconsistent (an index without an entry, a group of less than two ranks).
RecordedStep read_recording(const std::string& prefix);

/// Writes a step as the recording PREFIX.0.et: metadata without the nodes of a trace, so that only
/// `job: {program: ...}` can run it. Throws an environment Error if the file cannot be written.
void write_recording(const RecordedStep& step, const std::string& prefix);

}  // namespace orrery
