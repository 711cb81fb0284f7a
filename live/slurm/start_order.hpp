// Order to start one job of Slurm on named nodes: its lines for scontrol, and its comparison with
// the state that Slurm shows later; mark of a controller in the Comment of the ordered job. Used by
// live/slurm/job_follower and live/slurm/slurm_cluster. Pure functions; thread-safe. Durations are
// seconds, instants seconds since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "live/slurm/answers.hpp"
#include "policies/seam/decision.hpp"

namespace orrery::live {

/// Order of a decision that has been sent to Slurm and that no reading has confirmed yet.
struct StartOrder {
  Assign assign = {};                   ///< the decision
  std::vector<std::string> nodes = {};  ///< ascending names of its nodes
  std::int64_t since_s = 0;             ///< instant of the first command
  std::uint32_t repeats = 0;            ///< number of repeated commands
  bool is_marked = false;               ///< true: a reading has shown the mark of its job
};

/// State of an order. `waits`: Slurm has the order and starts the job when the nodes are free.
/// `lost`: Slurm shows other nodes or a later begin than ordered. `refused`: the nodes do not fit
/// the job (BadConstraints) or refused its launch, and the job is on hold. `overdue`: Slurm has the
/// order and did not start the job in time.
enum class OrderState : std::uint8_t { waits, lost, refused, overdue };

/// Returns the state of an order for the pending job `job`. `patience_s`: time that Slurm has for
/// the start. For example, an order for n3 is lost if slurmctld was killed before it had saved the
/// order: the job shows no required nodes and its begin time of before.
OrderState state_of(const StartOrder& order, const SlurmJob& job, std::int64_t now_s,
                    std::int64_t patience_s);

/// Line of scontrol. An order also sets the mark of its job.
struct SlurmLine {
  std::string text;
  std::string job = {};    ///< Slurm's id of the job whose mark is set; empty: no mark is set
  std::string owner = {};  ///< the controller that the mark names; empty: the mark is removed
};

/// Returns the line that starts a job on `nodes` and marks the order as that of `owner`. For
/// example, the text "update JobId=17 ReqNodeList=n3,n6 StartTime=now". `dependency`: jobs that the
/// job waits for from now on, "" for none; without a value they stay as they are.
SlurmLine start_line(const std::string& id, const std::vector<std::string>& nodes,
                     const std::string& owner,
                     const std::optional<std::string>& dependency = std::nullopt);
/// Returns the lines that set the same `fields` of jobs, at most 5 jobs a line. For example,
/// "update JobId=17,18 Dependency=afterany:9".
std::vector<std::string> update_lines(const std::vector<std::string>& ids,
                                      const std::string& fields);
/// Returns the lines that let jobs wait for `lease_s` more seconds.
std::vector<std::string> lease_lines(const std::vector<std::string>& ids, std::int64_t lease_s);
/// Returns the line that takes an order and its mark back: any nodes, and a begin in `lease_s`
/// seconds.
SlurmLine withdraw_line(const std::string& id, std::int64_t lease_s);
/// Returns the line that ends the hold after BadConstraints.
std::string release_line(const std::string& id);
/// Returns the line that stops a job and puts it back into the queue. Slurm ignores the line if the
/// job has ended since the newest reading; a bare requeue would run the complete job again.
std::string requeue_line(const std::string& id);

/// Returns the controller that the mark at the end of a job's Comment names; empty without a mark.
/// For example, "orrery:5" for "of the night run [orrery:5]".
std::string owner_in(std::string_view comment);
/// Returns the Comment with the mark of `owner` at its end instead of an earlier one, or without a
/// mark if `owner` is empty; the user's own text stays as it is. Returns nothing if Slurm does not
/// accept so long a Comment.
std::optional<std::string> marked_comment(std::string_view comment, const std::string& owner);

}  // namespace orrery::live
