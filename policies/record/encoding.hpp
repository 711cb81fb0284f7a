// Conversion between the structs of policies/seam and their protobuf records (traces/trace.proto).
// Logs, replay, the live journal and policies in another process use the same conversion. Functions
// are thread-safe, classes are not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/policy.hpp"
#include "policies/seam/sample_columns.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Writes the observation, without its world and telemetry, into `out`; replaces the content of
/// `out`.
void encode(const Observation& seen, ObservationRecord& out);
/// Writes the event into the empty record `out`.
void encode(const Event& event, EventRecord& out);
/// Writes the decision into `out`; replaces the content of `out`. Of an Assign without GPUs only
/// the job is stored: its layout and state have their defaults after decode().
void encode(const Decision& decision, DecisionRecord& out);
/// The following functions write a struct into the empty record `out`.
/// Writes the needs as logs have them: without `gpu_kinds` and `gpu_parts`.
void encode(const Needs& needs, NeedsRecord& out);
void encode(const Note& note, NoteRecord& out);
void encode(const JobSpec& job, JobRecord& out);
void encode(const Standing& where, StandingRecord& out);
void encode(const CollectiveTable& table, CollectiveTableRecord& out);
void encode(const CodecRules& rules, CodecRulesRecord& out);
void encode(const Setting& setting, SettingRecord& out);

/// The following functions return the struct of a record. They throw bad_input for a record without
/// a matching struct: an unknown kind, an unknown enumerator, or impossible sizes. Needs and
/// JobSpec::can keep unknown kinds. An absent number is 0 (an absent `expires` too), an absent size
/// of a layout 1.
Event decode(const EventRecord& record);
Decision decode(const DecisionRecord& record);
Needs decode(const NeedsRecord& record);
Note decode(const NoteRecord& record);
JobSpec decode(const JobRecord& record);
Standing decode(const StandingRecord& record);
CollectiveTable decode(const CollectiveTableRecord& record);
CodecRules decode(const CodecRulesRecord& record);
Setting decode(const SettingRecord& record);

/// Returns the telemetry that `wish` describes (kind, job, and the column or the number of slowest
/// ranks), read from `samples` with exactly one call. A wish for a column that has `rows` gets the
/// rows of the table, too, which are read first. Throws bad_input for a column that the table
/// lacks.
SamplesRead read_samples(Samples& samples, const SamplesRead& wish);
/// Writes the telemetry that `wish` describes into `read`; replaces the content of `read`.
void read_samples(Samples& samples, const SamplesRead& wish, SamplesRead& read);
/// Newest rows of tables of jobs that one process has sent to another. No rows are null.
using RowsByJob = std::map<std::pair<SampleTable, JobId>, std::shared_ptr<const SampleRows>>;
/// Writes as read_samples(), with the same calls of `samples`, but leaves out rows that equal the
/// rows in `sent`; writes the rows that were read into `sent`.
void read_changed_samples(Samples& samples, const SamplesRead& wish, RowsByJob& sent,
                          SamplesRead& read);
/// Makes the calls of read_samples() for the rows of a table or a column; ignores other wishes.
void repeat_read(Samples& samples, const SamplesRead& wish);
/// Returns the table of a read of rows or of a column; nothing for a read of collectives or of a
/// summary.
std::optional<SampleTable> table_of_read(const SamplesRead& read);
/// Returns the field of a read of a column. Throws bad_input for a column that the table lacks.
SampleField field_of_read(const SamplesRead& read, SampleTable table);
/// Returns the wish for the rows of a table.
SamplesRead wish_for(SampleTable table, JobId job);
/// Returns the wish for a column.
SamplesRead wish_for(SampleField field, JobId job);
/// Writes the rows or a column of a job as a read; replaces the content of `read`.
void encode(const SampleRows& rows, SampleTable table, JobId job, SamplesRead& read);
void encode(const SampleColumn& column, SampleField field, JobId job, SamplesRead& read);
/// Returns the rows of a table. Throws bad_input for impossible counts.
SampleRows decode(const RowsRecord& record, SampleTable table);
/// Returns the column with the bits of each value as recorded, whichever NaN a missing value is.
/// Throws bad_input for impossible counts, ages or origins.
SampleColumn decode_exactly(const ColumnRecord& record);
/// Returns the reads of the rows and of every column of the table that `read`, a read of a log of
/// format 3 or before, holds by row; `read` itself for collectives and summaries. Throws bad_input
/// for an unknown origin.
std::vector<SamplesRead> columns_of_rows(const SamplesRead& read);
/// Returns the telemetry of a read as text, for example "micro_batch_time of RANKS".
std::string describe_read(const SamplesRead& read);

/// Reader that rebuilds observations from records. Owns the events of the newest observation and a
/// World that applies all recorded events. The caller announces the decisions to world().
class ObservationReader {
 public:
  /// Constructs a reader; `cluster` must outlive the reader.
  explicit ObservationReader(const Cluster& cluster) : world_(cluster) {}
  /// Returns the observation of the next record, with `samples` as its telemetry; valid until the
  /// next call. Begins a new batch in world() (World::begin_batch) and applies the events to
  /// world(). Call in the order of the records; announce the decisions on an observation before the
  /// next call. Throws bad_input for an impossible record, for example with a rank outside its job;
  /// world() then has the events before.
  Observation read(const ObservationRecord& record, Samples& samples);
  /// Returns the world after the newest record.
  World& world() { return world_; }

 private:
  World world_;
  std::vector<Event> events_;
};

/// Returns the action and the step of a decision as text, for example "Configure{job 0: shares 13
/// 13 1 13, step 12}".
std::string trace_line(const Decision& decision);
/// Returns the line of a decision on the observation `seen` in the decision trace. For an
/// assignment of a job that does not train or is not in the table, the line also contains the
/// instant in whole seconds, because the instant determines the effect of the decision.
std::string trace_line(const Decision& decision, const Observation& seen);
/// Returns the decisions with all of their conditions and reasons as text, separated by "; ";
/// "nothing" if there are none.
std::string describe_all(std::span<const Decision> decisions);

}  // namespace orrery
