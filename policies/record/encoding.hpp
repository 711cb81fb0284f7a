// Structs of the seam to and from their recorded form (traces/trace.proto): one conversion for
// logs, for replay, for the live journal and for policies in another process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"
#include "traces/trace.pb.h"

namespace orrery {

void encode(const Observation& seen, ObservationRecord& out);
void encode(const Event& event, EventRecord& out);
void encode(const Decision& decision, DecisionRecord& out);
void encode(const Needs& needs, NeedsRecord& out);
void encode(const JobSpec& job, JobRecord& out);
void encode(const Standing& where, StandingRecord& out);
void encode(const CollectiveTable& table, CollectiveTableRecord& out);
void encode(const CodecRules& rules, CodecRulesRecord& out);
void encode(const Setting& setting, SettingRecord& out);

/// All throw bad_input on a record that no struct has (unknown kind, enumerator out of range).
Event decode(const EventRecord& record);
Decision decode(const DecisionRecord& record);
Needs decode(const NeedsRecord& record);
JobSpec decode(const JobRecord& record);
Standing decode(const StandingRecord& record);
CollectiveTable decode(const CollectiveTableRecord& record);
CodecRules decode(const CodecRulesRecord& record);
Setting decode(const SettingRecord& record);

/// What was read of telemetry, kept or played back: owns what the spans point to.
class SamplesBook : public Samples {
 public:
  RankSummary summary(JobId job, std::uint32_t latest) override;
  std::span<const RankSample> ranks(JobId job) override;
  std::span<const DeviceSample> devices(JobId job) override;
  std::span<const LinkSample> links(JobId job) override;
  std::span<const CollectiveSample> collectives(JobId job) override;

  void clear() {
    pages_.clear();
    missed_ = false;
  }
  /// Throws bad_input on what cannot be (an unknown enumerator).
  void add(const SamplesRead& read);
  /// The first wish for what is not there; null: none.
  const SamplesRead* missed() const { return missed_ ? &wish_ : nullptr; }

 protected:
  /// Called for what is not there; adds it, or leaves the answer empty.
  virtual void fetch(const SamplesRead& wish) {
    if (!missed_) wish_ = wish;
    missed_ = true;
  }

 private:
  struct Page {
    SamplesRead::What what{};
    JobId job;
    std::uint32_t asked = 0;
    RankSummary summary;
    std::vector<RankSample> ranks;
    std::vector<DeviceSample> devices;
    std::vector<LinkSample> links;
    std::vector<CollectiveSample> collectives;
  };
  const Page& page(SamplesRead::What what, JobId job, std::uint32_t latest = 0);

  std::vector<std::unique_ptr<Page>> pages_;
  SamplesRead wish_;
  bool missed_ = false;
};

/// Reads what `wish` names (its kind, job and count) out of `samples`.
SamplesRead read_samples(Samples& samples, const SamplesRead& wish);
/// The same into a message that is empty, where it stands.
void read_samples(Samples& samples, const SamplesRead& wish, SamplesRead& read);

/// An observation rebuilt from records: owns what the spans point to, and a World that follows the
/// recorded events.
class ObservationReader {
 public:
  explicit ObservationReader(const Cluster& cluster) : world_(cluster) {}
  /// Valid until the next call. Throws bad_input on a record that cannot be (unknown event kind,
  /// a rank outside its job).
  Observation read(const ObservationRecord& record, Samples& samples);
  World& world() { return world_; }

 private:
  World world_;
  std::vector<Event> events_;
};

/// What was decided, without times, ages or reasons:
/// "Configure{job 0: shares 13 13 1 13, step 12}".
std::string trace_line(const Decision& decision);
/// The line of the decision trace. Where a job without steps stands carries the trace second as
/// well, because it is the decision's effect.
std::string trace_line(const Decision& decision, const Observation& seen);

}  // namespace orrery
