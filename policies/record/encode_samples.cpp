#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "policies/record/encoding.hpp"
#include "policies/record/sample_records.hpp"
#include "policies/record/wire.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {
using namespace wire;
namespace {

/// Most rows of a table, so that a damaged record cannot exhaust the memory.
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 24;

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

// ---- reads ------------------------------------------------------------------------------------

constexpr std::array kTables{SampleTable::ranks, SampleTable::devices, SampleTable::links};

SamplesRead::What what_of(SampleTable table) {
  return static_cast<SamplesRead::What>(static_cast<int>(table));
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

SampleField field_of_read(const SamplesRead& read, SampleTable table) {
  const std::span<const SampleField> fields = fields_of(table);
  if (read.column() > fields.size()) {
    refuse(fmt::format("expected a column from 1 to {}, found column {}", fields.size(),
                       read.column()));
  }
  return fields[read.column() - 1];
}

SamplesRead wish_for(SampleTable table, JobId job) {
  SamplesRead wish;
  set_wish(table, job, wish);
  return wish;
}

SamplesRead wish_for(SampleField field, JobId job) {
  SamplesRead wish;
  set_wish(field, job, wish);
  return wish;
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

}  // namespace orrery
