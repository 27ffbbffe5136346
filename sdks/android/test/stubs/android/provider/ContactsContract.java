package android.provider;

import android.net.Uri;

public final class ContactsContract {
    public static final class CommonDataKinds {
        public static final class Phone {
            public static final Uri CONTENT_URI = Uri.parse("content://com.android.contacts/data/phones");
            public static final Uri CONTENT_FILTER_URI = Uri.parse("content://com.android.contacts/data/phones/filter");
            public static final String DISPLAY_NAME = "display_name", NUMBER = "data1";
        }
    }
}
