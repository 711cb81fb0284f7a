// Readers of training data that keep up with the steps: more processes and more micro-batches read
// ahead while the ranks wait for data. Sets Prefetch. Called by drive(); one thread. Seconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Returns the readers after one raise of those of `job`: twice the processes, and two
/// micro-batches ahead for each, but at most `most_workers` processes, and no more of either than
/// the job permits (JobSpec::max_workers, max_prefetch). Never fewer than now; equal to the present
/// readers at the limit. For example, {2, 4} becomes {4, 8}, and {4, 6} if the host has memory for
/// six.
Prefetch raised_prefetch(const JobInfo& job, std::uint32_t most_workers);

/// Policy that raises the readers of each job while its ranks wait for training data for more than
/// a share of the step time, and takes back a raise that does not shorten the wait. For example,
/// with 120 ms for a read and 50 ms for a step, one process makes a rank wait 70 ms a step; the
/// policy raises to two processes (10 ms), then to four (none).
class PrefetchPolicy : public Policy {
 public:
  /// Returns Configure and the setting Prefetch; no tick.
  Needs needs() const override;
  /// `parameters`: PrefetchParameters, or null for the defaults; absent fields have their defaults.
  /// Throws an internal Error for another message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Reads the waits of a job's ranks after each step of the job. Decides a Prefetch once the waits
  /// of enough steps under the present one are known. Forgets a job that starts again or is over.
  /// Rests while no rank waits for long or no raise is left.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the waits and raises of all known jobs; replaces the content of the archive.
  void save(Archive& archive) const override;
  /// Replaces the known jobs. Throws an internal Error for bytes that end within a job; bytes that
  /// end between two jobs load as fewer jobs.
  void load(const Archive& archive) override;

 private:
  /// Waits and raises of one job.
  struct Watch {
    double waits = 0, seconds = 0;  ///< sums over the measured steps: waits, and step times
    std::uint32_t steps = 0;        ///< measured steps
    Step counts_from = 0;           ///< first step whose samples show the newest Prefetch
    Prefetch before, asked;         ///< values before and after the newest raise
    double wait_before = -1;        ///< seconds a step before that raise; below 0: none is open
    bool is_settled = false;        ///< no rank waits for long, or no raise is left
    bool has_given_up = false;      ///< a raise was taken back

    /// Passes all fields to `bytes`, a ByteWriter or ByteReader.
    template <class Self, class Bytes>
    static void fields(Self& self, Bytes& bytes) {
      bytes(self.waits), bytes(self.seconds), bytes(self.steps), bytes(self.counts_from);
      for (auto* each : {&self.before, &self.asked}) bytes(each->workers), bytes(each->depth);
      bytes(self.wait_before), bytes(self.is_settled), bytes(self.has_given_up);
    }
  };

  bool can_raise(const JobInfo& job, const Watch& watch) const;
  void add_step(const JobInfo& job, double wait, double seconds, Watch& watch) const;
  void decide_for_job(const JobInfo& job, Watch& watch, DecisionList& decisions) const;

  PrefetchParameters parameters_;
  std::map<JobId, Watch> watches_;
};

}  // namespace orrery
