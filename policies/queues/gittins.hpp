// Gittins index, as Tiresias (Gu et al., NSDI 2019) uses it in two dimensions: the job that is
// likeliest to end soon for the GPU-seconds that it would take, judged by the GPU-seconds of jobs
// that have ended. For a job with `a` GPU-seconds of service the index is the maximum over all
// amounts d of P(S - a <= d | S > a) / E[min(S - a, d) | S > a], with S the total service of an
// ended job. Jobs with more service than any ended job go last. Needs no estimates. Tiresias keeps
// jobs in queues of equal index; here every pass computes the index again, so jobs make room more
// often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "policies/queues/ranked.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {

/// Index as a function of the service so far, from the services of the most recently ended jobs. If
/// `k` of the `n` ended jobs took no more than this job has, the index is the steepest slope from
/// the point (total service of all jobs up to then, k) to the points (total service up to the end
/// of the j-th job, j), j > k. update_index() therefore computes, once after each end, the next
/// corner of the hull for every point. Whole seconds of whole GPUs give exactly the quotient of the
/// definition, because all sums are exact.
class GittinsIndex {
 public:
  /// Starts without ended jobs; the index rests on the newest `history` of them. With a `history`
  /// of 0 the index of every job is 0.
  explicit GittinsIndex(std::size_t history = 0) : history_(history) {}
  /// Adds the service of an ended job, in GPU-seconds, and forgets the oldest beyond `history`.
  void add_service(double took);
  /// Returns the index of a job with service `had`, per GPU-second; 0 if no remembered job took
  /// more, also before the first add_service().
  double of(double had) const;
  /// Writes the remembered services, the oldest first.
  void save(ByteWriter& write) const;
  /// Replaces the remembered services by those that save() has written. Throws an internal Error
  /// for incomplete bytes.
  void load(ByteReader& read);

 private:
  struct Point {
    double took = 0;           ///< service of the job itself
    double before = 0;         ///< service of all jobs up to and including this one
    double all = 0;            ///< service of all jobs up to the end of this one
    std::uint32_t corner = 0;  ///< next corner of the hull; its own index: none
  };
  void update_index() const;

  std::size_t history_;
  std::deque<double> newest_;   ///< the newest at the end
  std::vector<double> sorted_;  ///< the same values, ascending
  mutable std::vector<Point> points_;
  mutable bool stale_ = false;
};

/// Queue policy that serves the largest Gittins index first.
class GittinsPolicy : public RankedPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Writes the services of the ended jobs, and number and digest of the queue.
  void save(Archive& archive) const override;
  /// Restores the services of the ended jobs; the queue is rebuilt from the job table. Throws an
  /// internal Error for incomplete bytes.
  void load(const Archive& archive) override;

 private:
  Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  void on_job_end(const JobInfo& job) override { index_.add_service(job.gpu_seconds); }
  const char* reason() const override { return "likeliest to end soon"; }

  GittinsIndex index_;
};

}  // namespace orrery
