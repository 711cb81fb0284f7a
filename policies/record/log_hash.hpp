// Hash of a log: SHA-256 of its records in order. Columns of samples, which are most of a log,
// count by a digest that is several times as fast as SHA-256. The digest finds every accidental
// change of a value, but is no protection against forgery. Used by the recorder and by replay; one
// thread.
#pragma once

#include <string>
#include <string_view>

#include "core/sha256.hpp"
#include "policies/seam/sample_columns.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Returns the digest of the values, ages and origins of a column, 64 bytes. Columns that differ in
/// one value always have different digests; others with a probability of 1 - 2^-64.
std::string column_digest(const SampleColumn& column);

/// Incremental hash of the records of one log. For example, the record of a call that read a column
/// of 512 ranks is hashed as add_column(column) and add_record(bytes), where `bytes` is the record
/// without the values of the column.
class LogHash {
 public:
  /// Appends a column that the next record has as a read without values. Call in the order of the
  /// reads.
  void add_column(const SampleColumn& column) { hash_.update(column_digest(column)); }
  /// Appends the bytes of a record in which no read of a column has values.
  void add_record(std::string_view bytes) { hash_.update(bytes); }
  /// Appends a call as it is stored, with all values. Throws bad_input for a column with impossible
  /// counts.
  void add_stored(const LogRecord& record);
  /// Returns the hash of all records so far as hex digits.
  std::string hex() const { return hash_.hex(); }

  /// Returns the state as bytes for restore_state() of the same build, in another process.
  std::string state() const { return hash_.state(); }
  /// Replaces the state; throws as Sha256::restore_state().
  void restore_state(std::string_view state) { hash_.restore_state(state); }

 private:
  Sha256 hash_;
};

}  // namespace orrery
