#include "policies/record/samples_book.hpp"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "policies/record/encoding.hpp"
#include "policies/record/sample_records.hpp"
#include "policies/record/wire.hpp"

namespace orrery {
using namespace wire;
namespace {

SampleColumn decode(const ColumnRecord& record) {
  SampleColumn column = decode_exactly(record);
  for (double& value : column.values) {
    if (std::isnan(value)) value = kMissing;
  }
  return column;
}

}  // namespace

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
