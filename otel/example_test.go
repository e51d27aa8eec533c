package otel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
	fencelockotel "github.com/fencelock/fencelock/otel"
)

// The metrics and spans go to the global providers.
func ExampleNew() {
	observer, err := fencelockotel.New(fencelockotel.Attributes(attribute.String("fencelock.backend", "mem")))
	if err != nil {
		fmt.Println(err)
		return
	}
	locker, err := mem.New(mem.NewServer(), fencelock.Observe(observer.Observe))
	if err != nil {
		fmt.Println(err)
		return
	}
	fence := observer.Fence(mem.NewFence())
	err = fencelock.WithLock(context.Background(), locker, "invoices/2026-11",
		func(ctx context.Context, token fencelock.Token) error {
			return fence.Admit(ctx, "invoices/2026-11", token)
		})
	fmt.Println(err)
	// Output: <nil>
}

// In a transaction that writes, the fence is made for each one: say what came of it.
func ExampleObserver_Checked() {
	observer, err := fencelockotel.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	admit := func() error { return &fencelock.StaleError{Name: "order/7", Have: 33, Want: 34} } // pg.NewFence(tx) …
	err = admit()
	observer.Checked(context.Background(), "order/7", err)
	fmt.Println(err)
	// Output: fencelock: "order/7": token 33 is stale, the fence admits 34 and above
}
