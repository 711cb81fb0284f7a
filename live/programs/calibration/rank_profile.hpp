// Profile of one rank of a user's program: the times of its steps' parts and operations, as the
// rank writes them in a run of `orrery calibrate` (python/orrery/programs/profiling.py). Pure
// functions; thread-safe. Seconds of the monotonic clock, which the ranks of a machine share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/scenario.pb.h"

namespace orrery::live {

/// Part of a step that the thread of the program spends in one call.
struct ProfiledPart {
  enum class Kind : std::uint8_t {
    backward,  ///< a backward pass, with the waits of DistributedDataParallel
    input,     ///< a read of a batch from a data loader
    update,    ///< a step of an optimizer
  } kind{};
  double begin_s = 0, end_s = 0;
};

/// Operation of a process group.
struct ProfiledOperation {
  std::string name;                    ///< for example "all_reduce"
  std::vector<std::uint32_t> members;  ///< ranks of the group, ascending
  /// Size of the tensors that the program has given: of an all-gather the inputs, of a
  /// reduce-scatter the outputs.
  double bytes = 0;
  double issued_s = 0;   ///< instant of the call
  double begun_s = 0;    ///< instant at which the earlier operations of the group were done
  double ended_s = 0;    ///< instant of the result
  double awaited_s = 0;  ///< instant of the first wait; 0: none, as for DistributedDataParallel
};

/// Profile of one rank.
struct RankProfile {
  std::uint32_t rank = 0, ranks = 1;
  std::vector<ProfiledPart> parts;  ///< parts in the order of their begin
  std::vector<ProfiledOperation>
      operations;      ///< operations that have ended, in the order of the calls
  std::uint32_t examples = 0;  ///< examples of most batches; 0: unknown
  RecordedStep state;          ///< parameters, memory and tokens; no kernels and no operations
};

/// Returns the profile in a JSON text. Throws bad_input, with `place` in the message, for another
/// text.
RankProfile rank_profile_of(const std::string& text, const std::string& place);

}  // namespace orrery::live
