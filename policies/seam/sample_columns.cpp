#include "policies/seam/sample_columns.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr std::array kFields{SampleField::micro_batches_done,
                             SampleField::micro_batch_time,
                             SampleField::wait_time,
                             SampleField::gradient_variance,
                             SampleField::noise_scale,
                             SampleField::input_wait,
                             SampleField::utilization,
                             SampleField::memory_bandwidth,
                             SampleField::memory_used,
                             SampleField::power,
                             SampleField::latency,
                             SampleField::bandwidth};
static_assert(kFields.size() == kSampleFields);
constexpr std::size_t kRankFields = 6, kDeviceFields = 4;

constexpr std::array<std::string_view, kSampleFields> kNames{"micro_batches_done",
                                                             "micro_batch_time",
                                                             "wait_time",
                                                             "gradient_variance",
                                                             "noise_scale",
                                                             "input_wait",
                                                             "utilization",
                                                             "memory_bandwidth",
                                                             "memory_used",
                                                             "power",
                                                             "latency",
                                                             "bandwidth"};

// Members of the row structs, in the order of SampleField.
constexpr std::array kRankMembers{&RankSample::micro_batches_done, &RankSample::micro_batch_time,
                                  &RankSample::wait_time, &RankSample::gradient_variance,
                                  &RankSample::noise_scale, &RankSample::input_wait};
constexpr std::array kDeviceMembers{&DeviceSample::utilization, &DeviceSample::memory_bandwidth,
                                    &DeviceSample::memory_used, &DeviceSample::power};
constexpr std::array kLinkMembers{&LinkSample::latency, &LinkSample::bandwidth};

constexpr const auto& members_of(const RankSample*) { return kRankMembers; }
constexpr const auto& members_of(const DeviceSample*) { return kDeviceMembers; }
constexpr const auto& members_of(const LinkSample*) { return kLinkMembers; }

std::size_t place_in_table(SampleField field) {
  return static_cast<std::size_t>(field) -
         static_cast<std::size_t>(fields_of(table_of(field)).front());
}

/// Replaces many equal entries by one.
template <class Value>
void fold_equal(std::vector<Value>& values) {
  const bool alike = std::all_of(values.begin(), values.end(),
                                 [&](const Value& each) { return each == values.front(); });
  if (alike && !values.empty()) values.resize(1);
}

template <class Row>
SampleColumn column_from(std::span<const Row> samples, SampleField field) {
  const auto member = members_of(samples.data())[place_in_table(field)];
  SampleColumn out;
  std::vector<Nanos> ages;
  std::vector<Origin> origins;
  const auto first = std::find_if(samples.begin(), samples.end(),
                                  [&](const Row& row) { return (row.*member).is_known(); });
  // A missing sample takes the age and the origin of the first known one, so that it keeps no
  // array of its own.
  const Sample<double> filler =
      first == samples.end() ? Sample<double>{0, 0, Origin::measured} : (*first).*member;
  for (const Row& row : samples) {
    const Sample<double>& sample = row.*member;
    const bool known = sample.is_known() && !std::isnan(sample.value);
    out.values.push_back(known ? sample.value : kMissing);
    ages.push_back(known ? sample.age : filler.age);
    origins.push_back(known ? sample.origin : filler.origin);
  }
  if (samples.empty()) return out;
  fold_equal(ages);
  fold_equal(origins);
  out.ages = std::move(ages);
  out.origins = std::move(origins);
  return out;
}

}  // namespace

std::span<const SampleField> fields_of(SampleTable table) {
  const std::span<const SampleField> all = kFields;
  if (table == SampleTable::ranks) return all.first(kRankFields);
  if (table == SampleTable::devices) return all.subspan(kRankFields, kDeviceFields);
  return all.subspan(kRankFields + kDeviceFields);
}

SampleTable table_of(SampleField field) {
  const auto place = static_cast<std::size_t>(field);
  if (place < kRankFields) return SampleTable::ranks;
  return place < kRankFields + kDeviceFields ? SampleTable::devices : SampleTable::links;
}

std::string_view name_of(SampleField field) { return kNames[static_cast<std::size_t>(field)]; }

void set_keys(const SampleRows& rows, std::size_t row, JobId job, RankSample& out) {
  out.job = job;
  out.rank = {rows.ids[row]};
  out.step = rows.steps[row];
}
void set_keys(const SampleRows& rows, std::size_t row, JobId, DeviceSample& out) {
  out.gpu = {rows.ids[row]};
}
void set_keys(const SampleRows& rows, std::size_t row, JobId, LinkSample& out) {
  out.from = {rows.ids[row]};
  out.to = {rows.to[row]};
}

std::optional<SampleField> field_of_name(std::string_view name) {
  for (const SampleField field : kFields) {
    if (name_of(field) == name) return field;
  }
  return {};
}

Sample<double>& value_of(RankSample& sample, SampleField field) {
  return sample.*kRankMembers[place_in_table(field)];
}

const std::shared_ptr<const SampleRows>& no_rows() {
  static const std::shared_ptr<const SampleRows> none = std::make_shared<SampleRows>();
  return none;
}

SampleRows rows_of(std::span<const RankSample> samples) {
  SampleRows rows;
  for (const RankSample& sample : samples) {
    rows.ids.push_back(sample.rank.value);
    rows.steps.push_back(sample.step);
  }
  return rows;
}
SampleRows rows_of(std::span<const DeviceSample> samples) {
  SampleRows rows;
  for (const DeviceSample& sample : samples) rows.ids.push_back(sample.gpu.value);
  return rows;
}
SampleRows rows_of(std::span<const LinkSample> samples) {
  SampleRows rows;
  for (const LinkSample& sample : samples) {
    rows.ids.push_back(sample.from.value);
    rows.to.push_back(sample.to.value);
  }
  return rows;
}

SampleColumn column_of(std::span<const RankSample> samples, SampleField field) {
  return column_from(samples, field);
}
SampleColumn column_of(std::span<const DeviceSample> samples, SampleField field) {
  return column_from(samples, field);
}
SampleColumn column_of(std::span<const LinkSample> samples, SampleField field) {
  return column_from(samples, field);
}

// ---- sources with rows only -------------------------------------------------------------------

std::shared_ptr<const SampleRows> Samples::rows(SampleTable table, JobId job) {
  if (table == SampleTable::ranks) return std::make_shared<SampleRows>(rows_of(ranks(job)));
  if (table == SampleTable::devices) return std::make_shared<SampleRows>(rows_of(devices(job)));
  return std::make_shared<SampleRows>(rows_of(links(job)));
}

std::shared_ptr<const SampleColumn> Samples::column(SampleField field, JobId job) {
  const SampleTable table = table_of(field);
  if (table == SampleTable::ranks) {
    return std::make_shared<SampleColumn>(column_of(ranks(job), field));
  }
  if (table == SampleTable::devices) {
    return std::make_shared<SampleColumn>(column_of(devices(job), field));
  }
  return std::make_shared<SampleColumn>(column_of(links(job), field));
}

// ---- sources with columns ---------------------------------------------------------------------

void ColumnSamples::clear_tables() {
  for (auto entry = pages_.begin(); entry != pages_.end();) {
    if (!entry->second.in_use) {
      entry = pages_.erase(entry);
    } else {
      entry->second = {};
      ++entry;
    }
  }
}

ColumnSamples::Page& ColumnSamples::page_of(SampleTable table, JobId job) {
  Page& page = pages_[{table, job}];
  page.in_use = true;
  return page;
}

std::shared_ptr<const SampleRows> ColumnSamples::known_rows(SampleTable table, JobId job) const {
  const auto page = pages_.find({table, job});
  return page == pages_.end() ? nullptr : page->second.rows;
}

std::shared_ptr<const SampleColumn> ColumnSamples::known_column(SampleField field,
                                                                JobId job) const {
  const auto page = pages_.find({table_of(field), job});
  return page == pages_.end() ? nullptr : page->second.columns[place_in_table(field)];
}

void ColumnSamples::store(SampleTable table, JobId job, std::shared_ptr<const SampleRows> rows) {
  std::shared_ptr<const SampleRows>& place = page_of(table, job).rows;
  if (place == nullptr) place = std::move(rows);
}

void ColumnSamples::store(SampleField field, JobId job,
                          std::shared_ptr<const SampleColumn> column) {
  auto& place = page_of(table_of(field), job).columns[place_in_table(field)];
  if (place == nullptr) place = std::move(column);
}

std::shared_ptr<const SampleRows> ColumnSamples::rows(SampleTable table, JobId job) {
  if (auto known = known_rows(table, job)) return known;
  auto made = make_rows(table, job);
  store(table, job, made);
  return made;
}

std::shared_ptr<const SampleColumn> ColumnSamples::column(SampleField field, JobId job) {
  if (auto known = known_column(field, job)) return known;
  auto made = make_column(field, job);
  store(field, job, made);
  return made;
}

template <class Row>
std::span<const Row> ColumnSamples::joined_rows(SampleTable table, JobId job,
                                                std::optional<std::vector<Row>> Page::*joined) {
  const std::shared_ptr<const SampleRows> keys = rows(table, job);
  std::optional<std::vector<Row>>& out = page_of(table, job).*joined;
  if (out) return *out;
  std::vector<Row> made(keys->size());
  for (std::size_t row = 0; row < made.size(); ++row) set_keys(*keys, row, job, made[row]);
  for (const SampleField field : fields_of(table)) {
    if (made.empty()) break;
    const auto member = members_of(made.data())[place_in_table(field)];
    const std::shared_ptr<const SampleColumn> values = column(field, job);
    const std::size_t known = std::min(made.size(), values->size());
    for (std::size_t row = 0; row < known; ++row) made[row].*member = values->sample(row);
  }
  return out.emplace(std::move(made));
}

std::span<const RankSample> ColumnSamples::ranks(JobId job) {
  return joined_rows(SampleTable::ranks, job, &Page::ranks);
}
std::span<const DeviceSample> ColumnSamples::devices(JobId job) {
  return joined_rows(SampleTable::devices, job, &Page::devices);
}
std::span<const LinkSample> ColumnSamples::links(JobId job) {
  return joined_rows(SampleTable::links, job, &Page::links);
}

}  // namespace orrery
