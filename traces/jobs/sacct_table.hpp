// Tables that Slurm's sacct writes: recognition by the columns JobID or JobIDRaw whatever their
// separator, tables of fixed width, names of columns for a table without them, and the refusal
// that names the command of a right file. Used by traces/jobs/job_log and traces/jobs/node_health.
// One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/files/csv.hpp"

namespace orrery {

/// Returns the separator of a table whose first line has the column JobID or JobIDRaw; nothing for
/// a text without them, or without a single separator of columns.
///
/// For example, "JobID;User;Submit" has ';', and "JobID  User" has blanks.
std::optional<Separator> sacct_separator(std::string_view text);

/// Returns true if the first line is a row of sacct without names of columns: two or more of its
/// fields are times such as 2024-03-01T08:00:00.
bool is_sacct_row(std::string_view text);

/// Returns the names of columns of the option --columns, which commas separate. Throws bad_input
/// without JobID, Submit, Start or End, and for a name that is empty or there twice.
std::vector<std::string> sacct_columns(const std::string& option);

/// Returns the separator of a table without names of columns: the one that divides its first line
/// into `columns` fields. Throws bad_input if none does, or if the table has names of columns.
Separator separator_for(const std::string& path, std::string_view text,
                        const std::vector<std::string>& columns);

/// Returns a table of sacct without -P, which has columns of fixed width above a line of dashes,
/// with bars between its columns; nothing for another text.
std::optional<std::string> with_bars(std::string_view text);

/// Joins the fields of a row that has too many, because its lists of resources ("cpu=8,node=1")
/// have commas too. The fields are parts of one text. An empty last field behind a separator
/// (sacct -p) is removed.
void join_sacct_fields(std::vector<std::string_view>& fields, std::size_t columns, Separator mark);

/// Reason to reject a row with another number of fields than the table has columns, with the
/// remedy.
std::string field_count_problem(std::size_t fields, std::size_t columns, Separator mark);

/// Returns true for the output of `sacct --json` or `squeue --json`.
bool is_slurm_json(std::string_view text);

/// Throws bad_input for a log of sacct that lacks a column or the names of all columns; returns for
/// another text.
void refuse_sacct(const std::string& path, std::string_view text);
/// Throws bad_input for the output of `sacct --json`.
[[noreturn]] void refuse_slurm_json(const std::string& path, std::string_view text);

}  // namespace orrery
