package android.app;

import android.content.DialogInterface;

public class AlertDialog {
    public static class Builder {
        public Builder(android.content.Context context) {}
        public Builder setMessage(CharSequence text) { return this; }
        public Builder setPositiveButton(int text, DialogInterface.OnClickListener listener) { return this; }
        public Builder setNegativeButton(int text, DialogInterface.OnClickListener listener) { return this; }
        public Builder setOnDismissListener(DialogInterface.OnDismissListener listener) { return this; }
        public AlertDialog show() { return new AlertDialog(); }
    }
}
