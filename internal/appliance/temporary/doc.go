// Package temporary has what servers that keep no data have in common: settings without
// durability ([Configure]) and a temporary directory ([Directory]).
package temporary
