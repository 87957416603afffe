#pragma once

#include <string>

#include "hethub/base/json.h"
#include "hethub/cluster/cluster.h"
#include "hethub/cluster/sheets.h"

namespace hethub {

/// Reads `kinds`, an object of kinds by name, in the file's order.
///
/// A kind may say `sheet: NAME`, and then has that data sheet's rates, processors, watts and
/// efficiency class, and `like: KIND`, and then has all that another kind of the file has; what it
/// states itself goes before either. `efficiency` is a class of the data sheets or an object of
/// constants, of which those left out stay what they were. Where all this comes from is in
/// Kind::source. `where` is the file's name in errors. Throws kInvalidConfig for unknown keys,
/// sheets, classes and kinds, wrong types, and kinds that are like each other in a ring.
std::vector<Kind> parse_kinds(const Json& kinds, const std::string& where);

/// What `sheet: NAME` stands for: a kind with the rates of that sheet, and its provenance.
Kind kind_of_sheet(const Sheets& sheets, const DataSheet& sheet);

/// The kind as parse_kinds reads it, all of it stated.
Json kind_json(const Kind& kind);

/// "latency_us" and "gb_per_s" of a link or a copy.
LinkRate parse_rate(const Json& object, const std::string& where);
Json rate_json(const LinkRate& rate);

}  // namespace hethub
