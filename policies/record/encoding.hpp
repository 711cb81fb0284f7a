// Conversion between the structs of policies/seam and their records (traces/trace.proto): one
// conversion for logs, replay, the live journal and policies in another process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Functions that write a struct into its record.
void encode(const Observation& seen, ObservationRecord& out);
void encode(const Event& event, EventRecord& out);
void encode(const Decision& decision, DecisionRecord& out);
void encode(const Needs& needs, NeedsRecord& out);
void encode(const JobSpec& job, JobRecord& out);
void encode(const Standing& where, StandingRecord& out);
void encode(const CollectiveTable& table, CollectiveTableRecord& out);
void encode(const CodecRules& rules, CodecRulesRecord& out);
void encode(const Setting& setting, SettingRecord& out);

/// Functions that return the struct of a record. All throw bad_input on a record that no struct has
/// (unknown kind, enumerator out of range).
Event decode(const EventRecord& record);
Decision decode(const DecisionRecord& record);
Needs decode(const NeedsRecord& record);
JobSpec decode(const JobRecord& record);
Standing decode(const StandingRecord& record);
CollectiveTable decode(const CollectiveTableRecord& record);
CodecRules decode(const CodecRulesRecord& record);
Setting decode(const SettingRecord& record);

/// Telemetry that was read, stored or played back: owns the data behind the spans.
class SamplesBook : public Samples {
 public:
  RankSummary summary(JobId job, std::uint32_t latest) override;
  std::span<const RankSample> ranks(JobId job) override;
  std::span<const DeviceSample> devices(JobId job) override;
  std::span<const LinkSample> links(JobId job) override;
  std::span<const CollectiveSample> collectives(JobId job) override;

  /// Removes all stored telemetry.
  void clear() {
    pages_.clear();
    missed_ = false;
  }
  /// Adds a recorded read. Throws bad_input on impossible values (an unknown enumerator).
  void add(const SamplesRead& read);
  /// Returns the first request for telemetry that is not stored; null if every request was
  /// satisfied.
  const SamplesRead* missed() const { return missed_ ? &wish_ : nullptr; }

 protected:
  /// Handles a request for telemetry that is not stored; adds the telemetry, or leaves the answer
  /// empty.
  virtual void fetch_samples(const SamplesRead& wish) {
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

/// Returns the telemetry that `wish` describes (kind, job and count), read from `samples`.
SamplesRead read_samples(Samples& samples, const SamplesRead& wish);
/// Writes the telemetry that `wish` describes into the empty message `read`.
void read_samples(Samples& samples, const SamplesRead& wish, SamplesRead& read);

/// Observations rebuilt from records: owns the data behind the spans, and a World that follows the
/// recorded events.
class ObservationReader {
 public:
  explicit ObservationReader(const Cluster& cluster) : world_(cluster) {}
  /// Returns the observation of a record; valid until the next call. Throws bad_input on an
  /// impossible record (unknown event kind, a rank outside its job).
  Observation read(const ObservationRecord& record, Samples& samples);
  /// Returns the world after the newest record.
  World& world() { return world_; }

 private:
  World world_;
  std::vector<Event> events_;
};

/// Returns a decision without times, ages or reasons, for example "Configure{job 0: shares 13 13 1
/// 13, step 12}".
std::string trace_line(const Decision& decision);
/// Returns the line of the decision trace. For the placement of a job without steps it contains the
/// second of the trace, because the instant is part of the decision's effect.
std::string trace_line(const Decision& decision, const Observation& seen);

}  // namespace orrery
