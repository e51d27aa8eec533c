package main

import "context"

// arm is one way to do transfers.
type arm struct {
	name     string
	safe     bool // no balance may be off
	fenced   bool // the fence must have something to refuse
	transfer func(*bank, context.Context, transfer) error
}

var arms = []arm{
	{name: "no lock", transfer: (*bank).unlocked},
	{name: "lease", transfer: func(b *bank, ctx context.Context, t transfer) error { return b.leased(ctx, t, false) }},
	{name: "lease and fence", safe: true, fenced: true,
		transfer: func(b *bank, ctx context.Context, t transfer) error { return b.leased(ctx, t, admitting) }},
	{name: "TxLock", safe: true, transfer: (*bank).txLocked},
}
