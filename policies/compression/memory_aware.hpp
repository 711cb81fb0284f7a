// The policy `memory-aware`: chooses the code of each job's gradient from the measured link, the
// memory that is left and how much the ranks' gradients differ. Registered in registry.cpp; one
// thread, as every policy. Needs samples of collectives: from them it learns how large a gradient
// is and how long its exchange really takes.
//
// How: once the warm-up is over, the time of an exchange is predicted (exchange_time.hpp) as it is
// and in each code that may be used, from the mildest to the most lossy. A code that loses more is
// taken only if it is predicted to be faster by the threshold than the one before it. Codes that
// need error feedback need the memory for it, and codes below 8 bits gradients that agree. Vectors
// (few bytes, sensitive) stay as they are. A code that turns out not to shorten the exchange is
// taken back and not tried again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

class MemoryAware : public Policy {
 public:
  MemoryAware();

  Needs needs() const override;
  /// `parameters`: MemoryAwareParameters or null; absent fields take their defaults.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  /// Moving average of a sampled value; 0 samples: unknown.
  struct Average {
    double value = 0;
    std::uint64_t samples = 0;
    double deviation = 0;  ///< mean of the samples' absolute ones
    void add(double sample);
    bool known() const { return samples > 0; }
    double doubt() const;  ///< how far it may be off after the next sample
  };
  /// What is known of one job.
  struct Watch {
    Average gradient;   ///< bytes of fp32 that one exchange sums
    Average bandwidth;  ///< of the slowest link, bytes per second
    Average latency;    ///< of the slowest link, seconds
    Average variance;   ///< of the gradients, the median rank's
    Average memory;     ///< bytes in use on the fullest GPU
    Average plain;  ///< an exchange without codes: measured over predicted time
    Average coded;  ///< an exchange in the code in force, measured seconds
    Codec in_force = Codec::none;  ///< as of the call before: what its samples were measured in
    Step heard_to = 0;             ///< collectives of earlier steps have been heard
    Step changes_at = 0;           ///< the newest decision takes effect
    bool decided = false;
    std::uint32_t barred = 0;  ///< a bit for each codec that was tried in vain

    template <class Self, class Bytes>
    static void fields(Self& self, Bytes& bytes) {
      for (auto* each : {&self.gradient, &self.bandwidth, &self.latency, &self.variance,
                         &self.memory, &self.plain, &self.coded}) {
        bytes(each->value), bytes(each->samples), bytes(each->deviation);
      }
      bytes(self.in_force), bytes(self.heard_to), bytes(self.changes_at);
      bytes(self.decided), bytes(self.barred);
    }
  };
  struct Choice {
    CodecRule code;
    double seconds = 0;  ///< of an exchange, predicted
  };
  void see(const Observation& seen, const JobInfo& job, Watch& watch) const;
  void see_collectives(const Observation& seen, const JobInfo& job, Watch& watch) const;
  void see_links(const Observation& seen, const JobInfo& job, Watch& watch) const;
  std::vector<CodecRule> allowed(const JobInfo& job, const Watch& watch) const;
  double predict(const JobInfo& job, const Watch& watch, const CodecRule& code) const;
  Choice choose(const JobInfo& job, const Watch& watch) const;
  bool in_vain(const JobInfo& job, const Watch& watch) const;
  bool settled(const JobInfo& job, const Watch& watch) const;
  /// Decides for one job; true if nothing is under way and nothing would be decided.
  bool consider(const JobInfo& job, Watch& watch, DecisionList& decisions) const;
  std::string reason(const JobInfo& job, const Watch& watch, const Choice& choice) const;

  MemoryAwareParameters parameters_;
  double memory_ = 0;            ///< of one GPU, bytes
  double memory_bandwidth_ = 0;  ///< bytes per second
  std::map<JobId, Watch> watches_;
};

}  // namespace orrery
