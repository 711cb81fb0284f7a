// Rows of the embedding table that a micro-batch needs: each distinct token once, and for every
// position the place of its row. Real text repeats tokens, so the table is read (and its gradient
// written) far less often than once for each token. Immutable. For example, the tokens "abba" have
// the rows "ab" and the slots 0, 1, 1, 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace orrery::live {

/// Distinct tokens of a micro-batch.
class TokenGather {
 public:
  /// Counts the distinct tokens; copies, so `tokens` need not stay.
  explicit TokenGather(std::span<const std::uint8_t> tokens);

  /// Returns the distinct tokens, ascending.
  std::span<const std::uint8_t> rows() const { return rows_; }
  /// Returns for every token the index of its row in rows().
  std::span<const std::uint8_t> slots() const { return slots_; }

 private:
  std::vector<std::uint8_t> rows_, slots_;
};

/// Returns the rows of `table` (one column for each token, unchecked) that `gather` names, each
/// read once: column i of the result is the row of gather.rows()[i].
template <class T, class Table>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> gather_rows(const Table& table,
                                                             const TokenGather& gather) {
  const auto count = static_cast<Eigen::Index>(gather.rows().size());
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> rows(table.rows(), count);
  for (Eigen::Index i = 0; i < count; ++i) {
    rows.col(i) = table.col(gather.rows()[static_cast<std::size_t>(i)]);
  }
  return rows;
}

/// Adds the gradient of gathered rows to the table's, each once; `rows` and `table` as the result
/// and argument of gather_rows(), unchecked.
template <class T, class Table>
void scatter_rows(const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>& rows,
                  const TokenGather& gather, Table&& table) {
  for (Eigen::Index i = 0; i < rows.cols(); ++i) {
    table.col(gather.rows()[static_cast<std::size_t>(i)]) += rows.col(i);
  }
}

}  // namespace orrery::live
