// Orders that the commands of another terminal leave in the folder of a live run
// (live/run/operator/orders.hpp), and the answers of the run. One thread.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/shared/live_runs.hpp"

namespace orrery::cli {

/// Writes an order into the run's folder under the next free number, completely or not at all.
/// Throws an environment Error if the file cannot be written, or if the run reads no orders.
void leave_order(const LiveRun& run, const nlohmann::ordered_json& order);

/// Leaves an order, blocks until the run has answered and prints the answer. `subject`, `accepted`:
/// the answer is the first new line that begins with `accepted`, or "an order is refused: SUBJECT:
/// ...". Throws a usage Error with the reason if the run refuses the order, an environment Error if
/// the run does not answer within 10 s.
void order_and_wait(LiveRun run, const nlohmann::ordered_json& order, const std::string& subject,
                    const std::string& accepted);

/// Orders the run to stop. `checkpoint`: with a final checkpoint. Returns false if the run has an
/// order to stop already. Throws an environment Error if the file cannot be written.
bool leave_stop_order(const LiveRun& run, bool checkpoint);

}  // namespace orrery::cli
