// Samples as columns: the rows of a table (which ranks, GPUs or paths), and for each field one
// array of doubles over all rows. Columns are written once by the source of the telemetry, shared
// without a copy with policies in C++ (std::span) and in Python (NumPy), and stored in the log as
// they are. Times in seconds, sizes in bytes, ages in nanoseconds. Immutable once shared;
// thread-safe then.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/seam/samples.hpp"

namespace orrery {

/// Number of tables, of fields, and of the fields of the table with the most.
inline constexpr std::size_t kSampleTables = 3, kSampleFields = 12, kMostFields = 6;

/// Returns the fields of a table, in the order of the members of its row struct.
std::span<const SampleField> fields_of(SampleTable table);
/// Returns the table that has the field.
SampleTable table_of(SampleField field);
/// Returns the name of the field, such as "micro_batch_time".
std::string_view name_of(SampleField field);
/// Returns the field of a name; nothing for an unknown name.
std::optional<SampleField> field_of_name(std::string_view name);

/// Value of a missing sample in SampleColumn::values. A column has no other NaN with this meaning:
/// a known value that is not a number counts as missing too.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// Ranks, GPUs or paths of the rows of a table.
struct SampleRows {
  std::vector<std::uint32_t> ids;  ///< rank, GPU, or the GPU at which a path begins
  std::vector<std::uint32_t> to;   ///< GPU at which a path ends; empty for other tables
  std::vector<Step> steps;         ///< step in progress of each rank; empty for other tables
  std::size_t size() const { return ids.size(); }
  bool operator==(const SampleRows&) const = default;
};

/// Returns rows of a table without any row, always the same object. For example, the rows of a job
/// that does not run.
const std::shared_ptr<const SampleRows>& no_rows();

/// Values of one field over all rows of a table. Ages and origins are usually equal in all rows:
/// the array then has one entry for all of them. For example, a simulated column of 10,240 ranks
/// has 10,240 values, one age (the staleness) and one origin (measured).
struct SampleColumn {
  std::vector<double> values;                     ///< kMissing for a missing sample
  std::vector<Nanos> ages{0};                     ///< one entry, or one for each row
  std::vector<Origin> origins{Origin::measured};  ///< like `ages`; not used for a missing sample
  std::size_t size() const { return values.size(); }
  /// Returns the age of a known sample; `row` must be below size().
  Nanos age(std::size_t row) const { return ages.size() == 1 ? ages[0] : ages[row]; }
  /// Returns the origin of a sample; `row` must be below size().
  Origin origin(std::size_t row) const {
    if (std::isnan(values[row])) return Origin::missing;
    return origins.size() == 1 ? origins[0] : origins[row];
  }
  /// Returns one sample; `row` must be below size().
  Sample<double> sample(std::size_t row) const {
    const bool known = !std::isnan(values[row]);
    return known ? Sample<double>{values[row], age(row), origin(row)} : Sample<double>{};
  }
};

/// Sets the members that say which rank, GPU or path `out` is about; `row` must be below
/// rows.size().
void set_keys(const SampleRows& rows, std::size_t row, JobId job, RankSample& out);
void set_keys(const SampleRows& rows, std::size_t row, JobId job, DeviceSample& out);
void set_keys(const SampleRows& rows, std::size_t row, JobId job, LinkSample& out);
/// Returns a member of a sample of a rank; `field` must be one of the table of ranks.
Sample<double>& value_of(RankSample& sample, SampleField field);

/// Returns the rows or a column of these samples.
SampleRows rows_of(std::span<const RankSample> samples);
SampleRows rows_of(std::span<const DeviceSample> samples);
SampleRows rows_of(std::span<const LinkSample> samples);
SampleColumn column_of(std::span<const RankSample> samples, SampleField field);
SampleColumn column_of(std::span<const DeviceSample> samples, SampleField field);
SampleColumn column_of(std::span<const LinkSample> samples, SampleField field);

/// Source of telemetry that makes columns. The rows of samples, which some policies read, are put
/// together from all columns of their table. Every part is made once, on the first request since
/// clear_tables().
class ColumnSamples : public Samples {
 public:
  std::shared_ptr<const SampleRows> rows(SampleTable table, JobId job) override;
  std::shared_ptr<const SampleColumn> column(SampleField field, JobId job) override;
  std::span<const RankSample> ranks(JobId job) override;
  std::span<const DeviceSample> devices(JobId job) override;
  std::span<const LinkSample> links(JobId job) override;

 protected:
  /// Forgets all parts; spans that were returned become invalid. The memory of tables that were
  /// requested since the last call is kept for their next parts.
  void clear_tables();
  /// Returns the part that was made or stored before; null if there is none.
  std::shared_ptr<const SampleRows> known_rows(SampleTable table, JobId job) const;
  std::shared_ptr<const SampleColumn> known_column(SampleField field, JobId job) const;
  /// Stores a part; of a part that is there already the first counts.
  void store(SampleTable table, JobId job, std::shared_ptr<const SampleRows> rows);
  void store(SampleField field, JobId job, std::shared_ptr<const SampleColumn> column);

 private:
  /// Makes the rows or a column of a job; not null.
  virtual std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) = 0;
  virtual std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) = 0;
  /// Parts of one table of a job.
  struct Page {
    bool in_use = false;  ///< true if a part was stored since the last clear_tables()
    std::shared_ptr<const SampleRows> rows;
    std::array<std::shared_ptr<const SampleColumn>, kSampleFields> columns;
    std::optional<std::vector<RankSample>> ranks;
    std::optional<std::vector<DeviceSample>> devices;
    std::optional<std::vector<LinkSample>> links;
  };
  template <class Row>
  std::span<const Row> joined_rows(SampleTable table, JobId job,
                                   std::optional<std::vector<Row>> Page::*joined);
  /// Returns the page of a table of a job, and marks it as in use.
  Page& page_of(SampleTable table, JobId job);
  std::map<std::pair<SampleTable, JobId>, Page> pages_;
};

}  // namespace orrery
