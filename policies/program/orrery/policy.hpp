// Interface of policies in C++ that are built outside of Orrery: the only header that such a policy
// includes.
#pragma once

#include "policies/run/policy_bench.hpp"
#include "policies/run/policy_program.hpp"
#include "policies/seam/byte_archive.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/sample_columns.hpp"
