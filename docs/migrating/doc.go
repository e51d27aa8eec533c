// Package migrating has the code of docs/migrating.md: for each library the call
// that was, and the one that comes instead. Tests run them against each other.
package migrating
