// Package translations loads the translations of kubectl's messages only in a process
// that runs kubectl. Packages of kubectl translate texts when they are initialized, and
// the first text takes 27 ms and 4 MB: half of the initialization of this program.
//
// [i18n.SetLoadTranslationsFunc] must be called before that. Go initializes packages in
// the order of their import paths as soon as their imports are initialized; this one
// imports so little that it comes before those packages, which a test of package cli
// verifies. Otherwise a start would take longer.
package translations
