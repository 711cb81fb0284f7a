// Reasons for the wait of one job of a log: a decorator that follows the job under a policy and
// attributes every second of its wait to an obstacle. Decides nothing. Called by `orrery explain`.
// One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policies/placement/placer.hpp"
#include "policies/seam/policy.hpp"

namespace orrery::sim {

/// Obstacles of a waiting job, by time.
struct WaitReasons {
  static constexpr std::size_t kMostNames = 10;

  std::string name;
  bool found = false;  ///< the job was submitted
  std::uint32_t slices = 1;  ///< slices of a GPU; the numbers of GPUs here count slices
  std::uint32_t gpus = 0;
  Nanos submitted = 0, started = -1, ended = -1;  ///< first start; -1: never
  Nanos too_few = 0;  ///< fewer GPUs, of one kind, were free than the job needs
  Nanos scattered = 0;  ///< enough GPUs were free, and could not be placed
  Nanos order = 0;      ///< the job could have been placed, and the policy let it wait
  std::uint64_t ahead_jobs = 0, ahead_gpus = 0;        ///< waiting jobs at its submission
  std::vector<std::string> ahead;                      ///< names of the first kMostNames of them
  std::uint32_t free_gpus = 0;                         ///< free GPUs at its submission
  std::uint64_t overtook_jobs = 0, overtook_gpus = 0;  ///< later jobs that started while it waited
  std::uint64_t taken_off = 0;                         ///< number of preemptions

  /// Returns the whole wait, before the first start and after preemptions.
  Nanos waited() const { return too_few + scattered + order; }
};

/// Policy that forwards to another policy and follows one job. save() and load() are those of the
/// other policy: the reasons are not saved.
class WaitWatch : public Policy {
 public:
  /// Follows the first job of that name that is submitted. `inner` must outlive this object.
  /// `placement`: the placement with which the log is replayed, which decides between `scattered`
  /// and `order`. Throws bad_input on an unknown placement.
  WaitWatch(Policy& inner, const std::string& job, const std::string& placement);

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

  /// Returns the reasons up to the newest observation; `found` is false before the submission. A
  /// wait that goes on counts up to the newest observation. The reference stays valid.
  const WaitReasons& reasons() const { return reasons_; }

 private:
  void follow_events(const Observation& seen);
  void on_event(const Observation& seen, const Event& event);
  void find(const Observation& seen, const JobSpec& job);
  Nanos& obstacle(const Observation& seen);

  Policy& inner_;
  std::unique_ptr<Placer> placer_;
  std::unique_ptr<FreeGpus> free_;
  std::unique_ptr<FreeKinds> kinds_;
  WaitReasons reasons_;
  JobId id_;
  bool waits_ = false;
  Nanos since_ = 0;
  Nanos* stands_ = nullptr;  ///< obstacle since `since_`
};

}  // namespace orrery::sim
