#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "policies/record/encoding.hpp"
#include "policies/record/wire.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {
using namespace wire;
namespace {

/// Most rows of a table, so that a damaged record cannot exhaust the memory.
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 24;

// ---- samples by row: summaries, and logs of earlier formats -------------------------------------

/// Returns false for a missing sample without a value, which then takes no bytes in the log.
bool worth_writing(const Sample<double>& sample) {
  return sample.is_known() || sample.value != 0 || sample.age != 0;
}

void encode(const Sample<double>& sample, SampleRecord& out) {
  out.set_value(sample.value);
  out.set_age(sample.age);
  out.set_origin(static_cast<std::uint32_t>(sample.origin));
}

Sample<double> decode(bool present, const SampleRecord& record) {
  if (!present) return {};
  if (record.origin() > 2) refuse(fmt::format("sample origin {} is unknown", record.origin()));
  return {record.value(), record.age(), static_cast<Origin>(record.origin())};
}

DeviceSample decode(const DeviceRecord& record) {
  return {.gpu = {record.gpu()},
          .utilization = decode(record.has_utilization(), record.utilization()),
          .memory_bandwidth = decode(record.has_memory_bandwidth(), record.memory_bandwidth()),
          .memory_used = decode(record.has_memory_used(), record.memory_used()),
          .power = decode(record.has_power(), record.power())};
}

LinkSample decode(const LinkRecord& record) {
  return {.from = {record.from_gpu()},
          .to = {record.to_gpu()},
          .latency = decode(record.has_latency(), record.latency()),
          .bandwidth = decode(record.has_bandwidth(), record.bandwidth())};
}

void encode(const RankSample& sample, RankRecord& out) {
  out.set_job(sample.job.value);
  out.set_rank(sample.rank.value);
  out.set_step(sample.step);
  if (worth_writing(sample.micro_batches_done)) {
    encode(sample.micro_batches_done, *out.mutable_micro_batches_done());
  }
  if (worth_writing(sample.micro_batch_time)) {
    encode(sample.micro_batch_time, *out.mutable_micro_batch_time());
  }
  if (worth_writing(sample.wait_time)) encode(sample.wait_time, *out.mutable_wait_time());
  if (worth_writing(sample.gradient_variance)) {
    encode(sample.gradient_variance, *out.mutable_gradient_variance());
  }
  if (worth_writing(sample.noise_scale)) encode(sample.noise_scale, *out.mutable_noise_scale());
}

RankSample decode(const RankRecord& record) {
  return {
      .job = {record.job()},
      .rank = {record.rank()},
      .step = record.step(),
      .micro_batches_done = decode(record.has_micro_batches_done(), record.micro_batches_done()),
      .micro_batch_time = decode(record.has_micro_batch_time(), record.micro_batch_time()),
      .wait_time = decode(record.has_wait_time(), record.wait_time()),
      .gradient_variance = decode(record.has_gradient_variance(), record.gradient_variance()),
      .noise_scale = decode(record.has_noise_scale(), record.noise_scale())};
}

void encode(const CollectiveSample& sample, CollectiveRecord& out) {
  out.set_job(sample.job.value);
  out.set_step(sample.step);
  out.set_kind(to_record<CollectiveKindRecord>(sample.kind));
  out.set_algorithm(to_record<CollectiveAlgorithmRecord>(sample.algorithm));
  out.set_bytes(sample.bytes);
  out.set_ranks(sample.ranks);
  out.set_exposed(sample.exposed);
}

CollectiveSample decode(const CollectiveRecord& record) {
  return {
      .job = {record.job()},
      .step = record.step(),
      .kind = to_enum<CollectiveKind>(record.kind(), CollectiveKindRecord_IsValid, "collective"),
      .algorithm = to_enum<CollectiveAlgorithm>(
          record.algorithm(), CollectiveAlgorithmRecord_IsValid, "collective algorithm"),
      .bytes = record.bytes(),
      .ranks = record.ranks(),
      .exposed = record.exposed()};
}

template <class SampleType, class Record>
void encode_all(std::span<const SampleType> samples,
                google::protobuf::RepeatedPtrField<Record>* out) {
  out->Reserve(static_cast<int>(samples.size()));
  for (const SampleType& sample : samples) encode(sample, *out->Add());
}

template <class Struct, class Records>
std::vector<Struct> decode_all(const Records& records) {
  std::vector<Struct> out;
  out.reserve(static_cast<std::size_t>(records.size()));
  for (const auto& record : records) out.push_back(decode(record));
  return out;
}

// ---- tables -----------------------------------------------------------------------------------

void check_rows(std::uint64_t rows) {
  if (rows > kMostRows) refuse("expected a table of at most 2^24 samples, found more");
}

/// Appends neighbouring ids as one entry each.
template <class Runs>
void encode_neighbours(const std::vector<std::uint32_t>& ids, Runs* out) {
  for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    for (end = begin + 1; end < ids.size() && ids[end - 1] + std::uint64_t{1} == ids[end];) ++end;
    GpuRunRecord& run = *out->Add();
    run.set_first(ids[begin]);
    run.set_count(static_cast<std::uint32_t>(end - begin));
  }
}

template <class Runs>
std::vector<std::uint32_t> decode_neighbours(const Runs& runs) {
  std::uint64_t rows = 0;
  for (const GpuRunRecord& run : runs) check_rows(rows += run.count());
  std::vector<std::uint32_t> ids;
  ids.reserve(rows);
  for (const GpuRunRecord& run : runs) {
    for (std::uint32_t i = 0; i < run.count(); ++i) ids.push_back(run.first() + i);
  }
  return ids;
}

/// Returns true if two values have equal bits.
template <class Value>
bool is_same(Value a, Value b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Writes the values as runs of equal neighbours if these are fewer than two thirds of the values.
template <class Value, class Values, class Counts>
void encode_runs_of(const std::vector<Value>& values, Values* out, Counts* counts) {
  std::size_t runs = values.empty() ? 0 : 1;
  for (std::size_t i = 1; i < values.size(); ++i) runs += !is_same(values[i], values[i - 1]);
  if (runs * 3 > values.size() * 2) {
    out->Add(values.begin(), values.end());
    return;
  }
  for (std::size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    while (end < values.size() && is_same(values[begin], values[end])) ++end;
    out->Add(values[begin]);
    counts->Add(static_cast<std::uint32_t>(end - begin));
  }
}

template <class Value, class Values, class Counts>
std::vector<Value> decode_runs_of(const Values& values, const Counts& counts) {
  if (counts.empty()) return {values.begin(), values.end()};
  if (counts.size() != values.size()) {
    refuse(fmt::format("expected a count for each of {} values of a column, found {}",
                       values.size(), counts.size()));
  }
  std::uint64_t rows = 0;
  for (const std::uint32_t count : counts) check_rows(rows += count);
  std::vector<Value> out;
  out.reserve(rows);
  for (int i = 0; i < counts.size(); ++i) out.insert(out.end(), counts[i], values[i]);
  return out;
}

void encode(const SampleRows& rows, RowsRecord& out) {
  encode_neighbours(rows.ids, out.mutable_ids());
  encode_neighbours(rows.to, out.mutable_to());
  encode_runs_of(rows.steps, out.mutable_steps(), out.mutable_step_counts());
}

void encode(const SampleColumn& column, ColumnRecord& out) {
  if (column.values.empty()) return;
  encode_runs_of(column.values, out.mutable_values(), out.mutable_counts());
  out.mutable_ages()->Add(column.ages.begin(), column.ages.end());
  for (const Origin origin : column.origins) {
    out.mutable_origins()->push_back(static_cast<char>(origin));
  }
}

SampleColumn decode(const ColumnRecord& record) {
  SampleColumn column = decode_exactly(record);
  for (double& value : column.values) {
    if (std::isnan(value)) value = kMissing;
  }
  return column;
}

// ---- reads ------------------------------------------------------------------------------------

constexpr std::array kTables{SampleTable::ranks, SampleTable::devices, SampleTable::links};

SamplesRead::What what_of(SampleTable table) {
  return static_cast<SamplesRead::What>(static_cast<int>(table));
}

/// Returns the field of a read of a column. Throws bad_input for a column that the table lacks.
SampleField field_of_read(const SamplesRead& read, SampleTable table) {
  const std::span<const SampleField> fields = fields_of(table);
  if (read.column() > fields.size()) {
    refuse(fmt::format("expected a column from 1 to {}, found column {}", fields.size(),
                       read.column()));
  }
  return fields[read.column() - 1];
}

/// Replaces the content of `read` by the wish for the rows of a table; keeps the memory of parts.
void set_wish(SampleTable table, JobId job, SamplesRead& read) {
  read.Clear();
  read.set_what(what_of(table));
  read.set_job(job.value);
}

/// Replaces the content of `read` by the wish for a column, as above.
void set_wish(SampleField field, JobId job, SamplesRead& read) {
  const SampleTable table = table_of(field);
  set_wish(table, job, read);
  read.set_column(static_cast<std::uint32_t>(field) -
                  static_cast<std::uint32_t>(fields_of(table).front()) + 1);
}

/// Returns the wish for the rows of a table or for a column.
template <class Part>
SamplesRead wish_for(Part part, JobId job) {
  SamplesRead wish;
  set_wish(part, job, wish);
  return wish;
}

void read_summary(const RankSummary& summary, RankSummaryRecord& out) {
  out.set_ranks(summary.ranks);
  out.set_micro_batch_time(summary.micro_batch_time);
  out.set_deviation(summary.deviation);
  out.set_age(summary.age);
  encode_all(summary.latest, out.mutable_latest());
}

/// Returns the rows of a table, read with one call; null if `sent`, which may be null, has equal
/// rows. Writes the rows into `sent`.
std::shared_ptr<const SampleRows> changed_rows(Samples& samples, SampleTable table, JobId job,
                                               RowsByJob* sent) {
  std::shared_ptr<const SampleRows> rows = samples.rows(table, job);
  if (sent == nullptr) return rows;
  std::shared_ptr<const SampleRows>& last = (*sent)[{table, job}];
  const bool is_equal = last != nullptr && (last == rows || *last == *rows);
  last = rows;
  return is_equal ? nullptr : rows;
}

void read_part(Samples& samples, const SamplesRead& wish, RowsByJob* sent, SamplesRead& read) {
  const JobId job{wish.job()};
  if (const std::optional<SampleTable> table = table_of_read(wish)) {
    std::shared_ptr<const SampleRows> rows;
    if (wish.column() == 0) {
      rows = changed_rows(samples, *table, job, sent);
      set_wish(*table, job, read);
    } else {
      const SampleField field = field_of_read(wish, *table);
      if (wish.has_rows()) rows = changed_rows(samples, *table, job, sent);
      encode(*samples.column(field, job), field, job, read);
    }
    if (rows != nullptr) encode(*rows, *read.mutable_rows());
    return;
  }
  read.Clear();
  read.set_what(wish.what());
  read.set_job(wish.job());
  read.set_latest(wish.latest());
  if (wish.what() == SamplesRead::COLLECTIVES) {
    encode_all(samples.collectives(job), read.mutable_collectives());
  } else {
    read_summary(samples.summary(job, wish.latest()), *read.mutable_summary());
  }
}

template <class Row>
void add_columns(SampleTable table, const std::vector<Row>& rows, const SamplesRead& read,
                 std::vector<SamplesRead>& out) {
  const std::span<const Row> samples = rows;
  out.push_back(wish_for(table, {read.job()}));
  encode(rows_of(samples), *out.back().mutable_rows());
  for (const SampleField field : fields_of(table)) {
    out.push_back(wish_for(field, {read.job()}));
    encode(column_of(samples, field), *out.back().mutable_values());
  }
}

}  // namespace

SampleRows decode(const RowsRecord& record, SampleTable table) {
  SampleRows rows{.ids = decode_neighbours(record.ids()),
                  .to = decode_neighbours(record.to()),
                  .steps = decode_runs_of<Step>(record.steps(), record.step_counts())};
  const std::size_t steps = table == SampleTable::ranks ? rows.size() : 0;
  const std::size_t ends = table == SampleTable::links ? rows.size() : 0;
  if (rows.steps.size() != steps || rows.to.size() != ends) {
    refuse(
        fmt::format("expected {} steps and {} ends of paths in a table of samples, found {} "
                    "and {}",
                    steps, ends, rows.steps.size(), rows.to.size()));
  }
  return rows;
}

SampleColumn decode_exactly(const ColumnRecord& record) {
  SampleColumn column;
  column.values = decode_runs_of<double>(record.values(), record.counts());
  if (column.values.empty()) return column;
  column.ages.assign(record.ages().begin(), record.ages().end());
  column.origins.clear();
  for (const char origin : record.origins()) {
    if (origin < 0 || origin > 1) refuse(fmt::format("sample origin {} is unknown", int{origin}));
    column.origins.push_back(static_cast<Origin>(origin));
  }
  const auto fits = [&](std::size_t count) { return count == 1 || count == column.size(); };
  if (!fits(column.ages.size()) || !fits(column.origins.size())) {
    refuse(fmt::format("expected 1 or {} ages and origins of a column, found {} and {}",
                       column.size(), column.ages.size(), column.origins.size()));
  }
  return column;
}

std::vector<SamplesRead> columns_of_rows(const SamplesRead& read) {
  std::vector<SamplesRead> out;
  if (read.what() == SamplesRead::RANKS) {
    add_columns(SampleTable::ranks, decode_all<RankSample>(read.ranks()), read, out);
  } else if (read.what() == SamplesRead::DEVICES) {
    add_columns(SampleTable::devices, decode_all<DeviceSample>(read.devices()), read, out);
  } else if (read.what() == SamplesRead::LINKS) {
    add_columns(SampleTable::links, decode_all<LinkSample>(read.links()), read, out);
  } else {
    out.push_back(read);
  }
  return out;
}

std::string describe_read(const SamplesRead& read) {
  const std::optional<SampleTable> table = table_of_read(read);
  const std::string what = SamplesRead::What_Name(read.what());
  if (!table || read.column() == 0) return what;
  return fmt::format("{} of {}", name_of(field_of_read(read, *table)), what);
}

std::optional<SampleTable> table_of_read(const SamplesRead& read) {
  const auto place = static_cast<std::size_t>(read.what());
  return place < kTables.size() ? std::optional(kTables[place]) : std::nullopt;
}

void encode(const SampleRows& rows, SampleTable table, JobId job, SamplesRead& read) {
  set_wish(table, job, read);
  encode(rows, *read.mutable_rows());
}

void encode(const SampleColumn& column, SampleField field, JobId job, SamplesRead& read) {
  set_wish(field, job, read);
  encode(column, *read.mutable_values());
}

SamplesRead read_samples(Samples& samples, const SamplesRead& wish) {
  SamplesRead read;
  read_samples(samples, wish, read);
  return read;
}

void read_samples(Samples& samples, const SamplesRead& wish, SamplesRead& read) {
  read_part(samples, wish, nullptr, read);
}

void repeat_read(Samples& samples, const SamplesRead& wish) {
  const std::optional<SampleTable> table = table_of_read(wish);
  if (!table) return;
  const JobId job{wish.job()};
  if (wish.column() == 0 || wish.has_rows()) samples.rows(*table, job);
  if (wish.column() > 0) samples.column(field_of_read(wish, *table), job);
}

void read_changed_samples(Samples& samples, const SamplesRead& wish, RowsByJob& sent,
                          SamplesRead& read) {
  read_part(samples, wish, &sent, read);
}

// ---- the book ---------------------------------------------------------------------------------

void SamplesBook::add(const SamplesRead& read) {
  const JobId job{read.job()};
  if (const std::optional<SampleTable> table = table_of_read(read)) {
    if (read.column() == 0 || read.has_rows()) {
      store(*table, job, std::make_shared<SampleRows>(decode(read.rows(), *table)));
    }
    if (read.column() > 0) {
      store(field_of_read(read, *table), job,
            std::make_shared<SampleColumn>(decode(read.values())));
    }
    return check_table(*table, job);
  }
  auto answer = std::make_unique<Answer>();
  answer->what = read.what();
  answer->job = job;
  answer->asked = read.latest();
  answer->collectives = decode_all<CollectiveSample>(read.collectives());
  const RankSummaryRecord& summary = read.summary();
  answer->latest = decode_all<RankSample>(summary.latest());
  answer->summary = {.ranks = summary.ranks(),
                     .micro_batch_time = summary.micro_batch_time(),
                     .deviation = summary.deviation(),
                     .age = summary.age(),
                     .latest = answer->latest};
  answers_.push_back(std::move(answer));
}

void SamplesBook::check_table(SampleTable table, JobId job) const {
  const std::shared_ptr<const SampleRows> rows = known_rows(table, job);
  if (rows == nullptr) return;
  for (const SampleField field : fields_of(table)) {
    const std::shared_ptr<const SampleColumn> column = known_column(field, job);
    if (column == nullptr || column->size() == rows->size()) continue;
    refuse(fmt::format("expected {} samples in the column {}, found {}", rows->size(),
                       name_of(field), column->size()));
  }
}

std::shared_ptr<const SampleRows> SamplesBook::make_rows(SampleTable table, JobId job) {
  fetch_samples(wish_for(table, job));
  auto fetched = known_rows(table, job);
  return fetched == nullptr ? std::make_shared<SampleRows>() : fetched;
}

std::shared_ptr<const SampleColumn> SamplesBook::make_column(SampleField field, JobId job) {
  fetch_samples(wish_for(field, job));
  if (auto fetched = known_column(field, job)) return fetched;
  // Policies count on a value for each row, also in a replay in which a read is missing.
  auto missing = std::make_shared<SampleColumn>();
  const std::shared_ptr<const SampleRows> rows = known_rows(table_of(field), job);
  if (rows != nullptr) missing->values.assign(rows->size(), kMissing);
  return missing;
}

const SamplesBook::Answer& SamplesBook::find_answer(SamplesRead::What what, JobId job,
                                                    std::uint32_t latest) {
  const auto find = [&]() -> const Answer* {
    for (const auto& each : answers_) {
      if (each->what == what && each->job == job && each->asked == latest) return each.get();
    }
    return nullptr;
  };
  if (const Answer* known = find()) return *known;
  SamplesRead wish;
  wish.set_what(what);
  wish.set_job(job.value);
  wish.set_latest(latest);
  fetch_samples(wish);
  const Answer* fetched = find();
  static const Answer nothing;
  return fetched == nullptr ? nothing : *fetched;
}

RankSummary SamplesBook::summary(JobId job, std::uint32_t latest) {
  return find_answer(SamplesRead::SUMMARY, job, latest).summary;
}
std::span<const CollectiveSample> SamplesBook::collectives(JobId job) {
  return find_answer(SamplesRead::COLLECTIVES, job).collectives;
}

}  // namespace orrery
