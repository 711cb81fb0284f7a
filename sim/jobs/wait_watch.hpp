// Why a job of a log waited: a decorator that watches one job while a policy decides, and says of
// every second in which it waited what stood in its way. It decides nothing itself. Called by
// `orrery explain`. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "policies/placement/placer.hpp"
#include "policies/seam/policy.hpp"

namespace orrery::sim {

/// What stood in a waiting job's way, by time.
struct WaitReasons {
  std::string name;
  bool found = false;  ///< it was submitted
  std::uint32_t gpus = 0;
  Nanos submitted = 0, started = -1, ended = -1;  ///< first start; -1: never
  Nanos too_few = 0;                              ///< fewer GPUs were free than it needs
  Nanos scattered = 0;                            ///< enough were free, and could not be placed
  Nanos order = 0;  ///< it could have been placed: the policy let it wait
  std::uint64_t ahead_jobs = 0, ahead_gpus = 0;        ///< that waited when it was submitted
  std::uint32_t free_gpus = 0;                         ///< then
  std::uint64_t overtook_jobs = 0, overtook_gpus = 0;  ///< came later, started while it waited
  std::uint64_t taken_off = 0;                         ///< how often it lost its GPUs

  Nanos waited() const { return too_few + scattered + order; }
};

class WaitWatch : public Policy {
 public:
  /// Watches the first job of that name. `inner` outlives this. Throws bad_input on an unknown
  /// placement.
  WaitWatch(Policy& inner, const std::string& job, const std::string& placement);

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool changed() const override { return inner_.changed(); }

  const WaitReasons& reasons() const { return reasons_; }

 private:
  void follow(const Observation& seen);
  void hear(const Observation& seen, const Event& event);
  void find(const Observation& seen, const JobSpec& job);
  Nanos& obstacle(const Observation& seen);

  Policy& inner_;
  std::unique_ptr<Placer> placer_;
  std::unique_ptr<FreeGpus> free_;
  WaitReasons reasons_;
  JobId id_;
  bool waits_ = false;
  Nanos since_ = 0;
  Nanos* stands_ = nullptr;  ///< what stands in its way since then
};

}  // namespace orrery::sim
